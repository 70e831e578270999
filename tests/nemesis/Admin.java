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

  /** Every region, to another server. */
  private static int move(org.apache.hadoop.hbase.client.Admin admin, TableName table) throws Exception {
    List<ServerName> servers = new ArrayList<>(admin.getRegionServers());
    int count = 0;
    for (ServerName server : servers) {
      for (RegionInfo region : admin.getRegions(server)) {
        List<ServerName> others = new ArrayList<>(servers);
        others.remove(server);
        if (region.getTable().equals(table) && !others.isEmpty()) {
          Collections.shuffle(others);
          admin.move(region.getEncodedNameAsBytes(), others.get(0));
          count++;
        }
      }
      if (count > 0) {
        break;
      }
    }
    return count;
  }

  private static void setRoom(Configuration settings, Path folder, String bytes) throws Exception {
    try (var files = (DistributedFileSystem) folder.getFileSystem(settings)) {
      long room = bytes.equals("any") ? HdfsConstants.QUOTA_RESET : Long.parseLong(bytes);
      files.setQuota(folder, HdfsConstants.QUOTA_DONT_SET, room);
      System.out.println("did " + 1);
    }
  }
}
