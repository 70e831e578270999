import java.io.StringReader;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Types;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.stream.Collectors;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** What a program does with PostgreSQL's JDBC driver. Each check prints one line. */
public class Client {
  interface Check {
    Object run(Connection connection) throws Exception;
  }

  static String url;

  public static void main(String[] arguments) throws Exception {
    url = arguments[0];
    check("tables", Client::tables);
    check("columns", Client::columns);
    check("primary keys", c -> rows(c.getMetaData().getPrimaryKeys(null, "public", "line"), 4, 5));
    check("imported keys", c -> rows(c.getMetaData().getImportedKeys(null, "public", "line"), 3, 4, 7, 8));
    check("exported keys", c -> rows(c.getMetaData().getExportedKeys(null, "public", "thing"), 7, 8));
    check("indexes", c -> rows(c.getMetaData().getIndexInfo(null, "public", "line", false, true), 4, 6, 9));
    check("schemas", c -> rows(c.getMetaData().getSchemas(), 1));
    check("product", Client::product);
    check("prepared", Client::prepared);
    check("batch", Client::batch);
    check("failed batch", Client::failedBatch);
    check("generated keys", Client::generatedKeys);
    check("fetch size", Client::fetchSize);
    check("rollback", Client::rollback);
    check("savepoint", Client::savepoint);
    check("conflict", Client::conflict);
    check("types", Client::types);
    check("nulls", Client::nulls);
    check("copy", Client::copy);
    check("failed copy", Client::failedCopy);
    check("errors", Client::errors);
  }

  static void check(String name, Check check) {
    try (Connection connection = DriverManager.getConnection(url)) {
      System.out.println(name + ": " + check.run(connection));
    } catch (Throwable error) {
      System.out.println(name + " failed: " + error);
    }
  }

  /** The rows of a result: some of its columns. */
  static List<String> rows(ResultSet found, int... columns) throws SQLException {
    List<String> all = new ArrayList<>();
    while (found.next()) {
      List<String> row = new ArrayList<>();
      for (int column : columns) row.add(found.getString(column));
      all.add(String.join(" ", row));
    }
    found.close();
    return all;
  }

  static Object tables(Connection connection) throws SQLException {
    String[] kinds = {"TABLE", "VIEW", "MATERIALIZED VIEW"};
    return rows(connection.getMetaData().getTables(null, "public", "%", kinds), 3, 4);
  }

  static Object columns(Connection connection) throws SQLException {
    return rows(connection.getMetaData().getColumns(null, "public", "line", "%"), 4, 5, 6, 7, 9, 18, 23);
  }

  static Object product(Connection connection) throws SQLException {
    DatabaseMetaData data = connection.getMetaData();
    return data.getDatabaseProductName() + " " + data.supportsTransactions() + " "
        + data.supportsSavepoints() + " " + data.getURL().contains("hornbeam");
  }

  /** The driver prepares a statement on the server from its fifth run on, and then uses binary values. */
  static Object prepared(Connection connection) throws SQLException {
    List<String> found = new ArrayList<>();
    String sql = "SELECT t_name, t_price * ? FROM thing WHERE t_id = ?";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int run = 1; run <= 8; run++) {
        statement.setBigDecimal(1, new BigDecimal(run));
        statement.setInt(2, run % 2 + 1);
        found.addAll(rows(statement.executeQuery(), 1, 2));
      }
      found.add(statement.getMetaData().getColumnTypeName(1));
      found.add(statement.getParameterMetaData().getParameterTypeName(2));
    }
    return found;
  }

  static PreparedStatement insert(Connection connection) throws SQLException {
    return connection.prepareStatement("INSERT INTO thing (t_id, t_name, t_price) VALUES (?, ?, ?)");
  }

  static void add(PreparedStatement statement, int id, BigDecimal price) throws SQLException {
    statement.setInt(1, id);
    statement.setString(2, "n" + id);
    statement.setBigDecimal(3, price);
    statement.addBatch();
  }

  static Object batch(Connection connection) throws SQLException {
    try (PreparedStatement statement = insert(connection)) {
      for (int id = 100; id < 400; id++) add(statement, id, BigDecimal.ONE);
      return Arrays.stream(statement.executeBatch()).sum() + " " + count(connection, 100, 399);
    }
  }

  static Object failedBatch(Connection connection) throws SQLException {
    try (PreparedStatement statement = insert(connection)) {
      for (int id = 400; id < 410; id++) add(statement, id, new BigDecimal(id == 405 ? -1 : 1));
      statement.executeBatch();
      return "no error";
    } catch (BatchUpdateException error) {
      return error.getSQLState() + " " + count(connection, 400, 409);
    }
  }

  static String count(Connection connection, int first, int last) throws SQLException {
    String sql = "SELECT count(*) FROM thing WHERE t_id BETWEEN " + first + " AND " + last;
    try (Statement statement = connection.createStatement()) {
      return rows(statement.executeQuery(sql), 1).get(0);
    }
  }

  static Object generatedKeys(Connection connection) throws SQLException {
    String sql = "INSERT INTO note (n_text) VALUES ('a'), ('b')";
    try (Statement statement = connection.createStatement()) {
      statement.executeUpdate(sql, new String[] {"n_id"});
      return rows(statement.getGeneratedKeys(), 1).stream().distinct().count();
    }
  }

  static Object fetchSize(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    long sum = 0;
    String sql = "SELECT g FROM generate_series(1, 5000) t (g)";
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setFetchSize(100);
      ResultSet found = statement.executeQuery();
      for (int row = 0; found.next(); row++) {
        sum += found.getInt(1);
        if (row == 150) sum += 0 * Integer.parseInt(count(connection, 1, 2));
      }
    }
    connection.commit();
    return sum;
  }

  static Object rollback(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    try (Statement statement = connection.createStatement()) {
      statement.executeUpdate("INSERT INTO thing VALUES (500, 'a', 1)");
    }
    String inside = count(connection, 500, 500);
    connection.rollback();
    return inside + " " + count(connection, 500, 500);
  }

  static Object savepoint(Connection connection) throws SQLException {
    connection.setAutoCommit(false);
    try (Statement statement = connection.createStatement()) {
      statement.executeUpdate("INSERT INTO thing VALUES (510, 'a', 1)");
      Savepoint here = connection.setSavepoint();
      try {
        statement.executeUpdate("INSERT INTO thing VALUES (511, NULL, 1)");
      } catch (SQLException error) {
        connection.rollback(here);
      }
      statement.executeUpdate("INSERT INTO thing VALUES (512, 'c', 1)");
    }
    connection.commit();
    return count(connection, 510, 512);
  }

  static void raise(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      rows(statement.executeQuery("SELECT t_price FROM thing WHERE t_id = 1"), 1);
      statement.executeUpdate("UPDATE thing SET t_price = t_price + 1 WHERE t_id = 1");
    }
  }

  static Object conflict(Connection connection) throws SQLException {
    try (Connection other = DriverManager.getConnection(url)) {
      connection.setAutoCommit(false);
      other.setAutoCommit(false);
      raise(connection);
      raise(other);
      connection.commit();
      try {
        other.commit();
        return "no conflict";
      } catch (SQLException error) {
        other.rollback();
        raise(other);
        other.commit();
        return error.getSQLState();
      }
    }
  }

  static Object types(Connection connection) throws SQLException {
    String sql = "INSERT INTO kind VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    Object[] values = {
      Integer.MAX_VALUE, Long.MIN_VALUE, 0.1, new BigDecimal("-12345.67"), true, "a'b\n☃",
      LocalDate.of(2024, 2, 29), LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4_000),
      OffsetDateTime.of(2024, 2, 29, 1, 2, 3, 0, ZoneOffset.UTC), UUID.fromString("00000000-0000-0000-0000-000000000007"),
    };
    byte[] bytes = {0, -1, 7};
    Integer[] numbers = {1, null, -3};
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int number = 0; number < values.length; number++) statement.setObject(number + 1, values[number]);
      statement.setBytes(11, bytes);
      statement.setArray(12, connection.createArrayOf("integer", numbers));
      statement.executeUpdate();
    }
    List<String> wrong = new ArrayList<>();
    try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM kind")) {
      for (int run = 1; run <= 8; run++) { // from the fifth run on, results are binary
        ResultSet found = statement.executeQuery();
        found.next();
        for (int number = 0; number < values.length; number++) {
          Object value = found.getObject(number + 1, values[number].getClass());
          if (!value.equals(values[number])) wrong.add(value + " is not " + values[number]);
        }
        if (!Arrays.equals(found.getBytes(11), bytes)) wrong.add("bytes");
        if (!Arrays.equals((Object[]) found.getArray(12).getArray(), numbers)) wrong.add("array");
      }
    }
    return wrong;
  }

  static Object nulls(Connection connection) throws SQLException {
    try (PreparedStatement statement = insert(connection)) {
      statement.setInt(1, 600);
      statement.setString(2, "");
      statement.setNull(3, Types.NUMERIC);
      statement.executeUpdate();
    }
    try (Statement statement = connection.createStatement()) {
      ResultSet found = statement.executeQuery("SELECT t_name, t_price FROM thing WHERE t_id = 600");
      found.next();
      return found.getString(1).isEmpty() + " " + found.getBigDecimal(2) + " " + found.wasNull();
    }
  }

  static CopyManager manager(Connection connection) throws SQLException {
    return connection.unwrap(PGConnection.class).getCopyAPI();
  }

  static Object copy(Connection connection) throws Exception {
    String data = "700,\"a, b\",1\n701,c,\n";
    long taken = manager(connection).copyIn("COPY thing FROM STDIN (FORMAT csv)", new StringReader(data));
    StringWriter written = new StringWriter();
    String query = "COPY (SELECT * FROM thing WHERE t_id IN (700, 701) ORDER BY 1) TO STDOUT (FORMAT csv)";
    long given = manager(connection).copyOut(query, written);
    return taken + " " + given + " " + written.toString().replace("\n", ";");
  }

  static Object failedCopy(Connection connection) throws Exception {
    try {
      manager(connection).copyIn("COPY thing FROM STDIN", new StringReader("710\ta\t1\nx\tb\t1\n"));
      return "no error";
    } catch (SQLException error) {
      return error.getSQLState() + " " + error.getMessage().contains("line 2, column t_id") + " "
          + count(connection, 710, 710);
    }
  }

  static Object errors(Connection connection) throws SQLException {
    List<String> states = new ArrayList<>();
    for (String sql : List.of("SELEC 1", "SELECT nothing FROM thing", "INSERT INTO thing VALUES (1, 'a', 1)")) {
      try (Statement statement = connection.createStatement()) {
        statement.execute(sql);
      } catch (SQLException error) {
        states.add(error.getSQLState());
      }
    }
    return states.stream().collect(Collectors.joining(" "));
  }
}
