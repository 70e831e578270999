// What Thrift cannot ask of HBase and HDFS: regions split and moved, room in a folder.
// java -cp CONFIGURATION:JARS Admin.java split|move NAMESPACE | room FOLDER BYTES|any

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.RegionInfo;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

public class Admin {
  public static void main(String[] words) throws Exception {
    Configuration settings = HBaseConfiguration.create();
    if (words[0].equals("room")) {
      setRoom(settings, new Path(words[1]), words[2]);
      return;
    }
    try (Connection connection = ConnectionFactory.createConnection(settings);
        org.apache.hadoop.hbase.client.Admin admin = connection.getAdmin()) {
      int count = 0;
      for (TableName table : admin.listTableNamesByNamespace(words[1])) {
        count += words[0].equals("split") ? split(connection, admin, table) : move(admin, table);
      }
      System.out.println("did " + count);
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

  /** One region, any of them, to another server: each takes a second, and splits make them many. */
  private static int move(org.apache.hadoop.hbase.client.Admin admin, TableName table) throws Exception {
    List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
    Collections.shuffle(servers);
    for (ServerName server : servers) {
      List<RegionInfo> regions = admin.getRegions(server);
      regions.removeIf(region -> !region.getTable().equals(table));
      if (!regions.isEmpty() && servers.size() > 1) {
        Collections.shuffle(regions);
        ServerName other = servers.get(servers.get(0).equals(server) ? 1 : 0);
        admin.move(regions.get(0).getEncodedNameAsBytes(), other);
        return 1;
      }
    }
    return 0;
  }

  private static void setRoom(Configuration settings, Path folder, String bytes) throws Exception {
    try (var files = (DistributedFileSystem) folder.getFileSystem(settings)) {
      long room = bytes.equals("any") ? HdfsConstants.QUOTA_RESET : Long.parseLong(bytes);
      files.setQuota(folder, HdfsConstants.QUOTA_DONT_SET, room);
      System.out.println("did " + 1);
    }
  }
}
