// What Thrift cannot ask of HBase and HDFS: regions split and moved, room in a folder.
// java -cp CONFIGURATION:JARS Admin.java split|move NAMESPACE | room FOLDER BYTES|any

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.AsyncAdmin;
import org.apache.hadoop.hbase.client.AsyncConnection;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

public class Admin {
  /** Less than the caller waits, so that the table that waits is named. */
  private static final long MOVES_S = 150;

  public static void main(String[] words) throws Exception {
    Configuration settings = HBaseConfiguration.create();
    if (words[0].equals("room")) {
      setRoom(settings, new Path(words[1]), words[2]);
      return;
    }
    System.out.println("did " + (words[0].equals("split") ? split(settings, words[1]) : move(settings, words[1])));
  }

  private static int split(Configuration settings, String namespace) throws Exception {
    try (Connection connection = ConnectionFactory.createConnection(settings);
        org.apache.hadoop.hbase.client.Admin admin = connection.getAdmin()) {
      int count = 0;
      for (TableName table : admin.listTableNamesByNamespace(namespace)) {
        count += split(connection, admin, table);
      }
      return count;
    }
  }

  /** The table at the key in its middle; no region may begin there already. */
  private static int split(Connection connection, org.apache.hadoop.hbase.client.Admin admin, TableName table)
      throws Exception {
    List<byte[]> keys = new ArrayList<>();
    try (var reader = connection.getTable(table);
        var rows = reader.getScanner(new org.apache.hadoop.hbase.client.Scan())) {
      rows.forEach(row -> keys.add(row.getRow()));
    }
    for (byte[] start : connection.getRegionLocator(table).getStartKeys()) {
      keys.removeIf(key -> Arrays.equals(key, start));
    }
    if (keys.size() < 4) {
      return 0;
    }
    admin.split(table, keys.get(keys.size() / 2));
    return 1;
  }

  /** One region of each table, any of them, to another server. All are under way at the same time:
   * one move takes a second or more, and splits make more of them. */
  private static int move(Configuration settings, String namespace) throws Exception {
    try (AsyncConnection connection = ConnectionFactory.createAsyncConnection(settings).get()) {
      AsyncAdmin admin = connection.getAdmin();
      List<ServerName> servers = new ArrayList<>(admin.getRegionServers().get());
      Collections.shuffle(servers);
      Map<TableName, CompletableFuture<Void>> moves = new TreeMap<>();
      for (int i = 0; i < servers.size() && servers.size() > 1; i++) {
        ServerName other = servers.get((i + 1) % servers.size());
        List<RegionInfo> regions = admin.getRegions(servers.get(i)).get();
        Collections.shuffle(regions);
        regions.removeIf(region -> !region.getTable().getNamespaceAsString().equals(namespace));
        for (RegionInfo region : regions) {
          moves.computeIfAbsent(
              region.getTable(), table -> admin.move(region.getEncodedNameAsBytes(), other));
        }
      }
      long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(MOVES_S);
      for (Map.Entry<TableName, CompletableFuture<Void>> each : moves.entrySet()) {
        try {
          each.getValue().get(until - System.nanoTime(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
          throw new TimeoutException(each.getKey() + " is not moved after " + MOVES_S + " s");
        }
      }
      return moves.size();
    }
  }

  private static void setRoom(Configuration settings, Path folder, String bytes) throws Exception {
    try (var files = (DistributedFileSystem) folder.getFileSystem(settings)) {
      long room = bytes.equals("any") ? HdfsConstants.QUOTA_RESET : Long.parseLong(bytes);
      files.setQuota(folder, HdfsConstants.QUOTA_DONT_SET, room);
      System.out.println("did " + 1);
    }
  }
}
