// A program that uses pgx as applications do. Each line that it prints is one check.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var ctx = context.Background()

type thing struct {
	ID    int32          `db:"t_id"`
	Name  string         `db:"t_name"`
	Price pgtype.Numeric `db:"t_price"`
}

func main() {
	url := os.Args[1]
	connection := one(pgx.Connect(ctx, url))
	defer connection.Close(ctx)
	for _, check := range []struct {
		name string
		run  func(*pgx.Conn, string) string
	}{
		{"rows", rows},
		{"modes", modes},
		{"types", types},
		{"nulls", nulls},
		{"batch", batch},
		{"failed batch", failedBatch},
		{"copy", copyRows},
		{"failed copy", failedCopy},
		{"rollback", rollback},
		{"savepoint", savepoint},
		{"conflict", conflict},
		{"read only", readOnly},
		{"errors", failures},
		{"cancel", cancel},
		{"pool", pool},
		{"database/sql", standard},
	} {
		fmt.Printf("%s: %s\n", check.name, check.run(connection, url))
	}
}

func one[T any](value T, err error) T {
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return fmt.Sprint(err)
}

func count(connection *pgx.Conn, where string, values ...any) (found int) {
	must(connection.QueryRow(ctx, "SELECT count(*) FROM thing WHERE "+where, values...).Scan(&found))
	return found
}

func rows(connection *pgx.Conn, _ string) string {
	found := one(connection.Query(ctx, "SELECT * FROM thing WHERE t_id <= $1 ORDER BY t_id", 2))
	things := one(pgx.CollectRows(found, pgx.RowToStructByName[thing]))
	words := []string{}
	for _, each := range things {
		price := one(each.Price.Value())
		words = append(words, fmt.Sprint(each.ID, " ", each.Name, " ", price))
	}
	return strings.Join(words, ", ")
}

func modes(connection *pgx.Conn, _ string) string {
	words := []string{}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe,
		pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		var name string
		sql := "SELECT t_name FROM thing WHERE t_id = $1 AND t_name <> $2"
		must(connection.QueryRow(ctx, sql, mode, 2, "it's").Scan(&name))
		words = append(words, name)
	}
	return strings.Join(words, " ")
}

func types(connection *pgx.Conn, _ string) string {
	at := time.Date(2026, 11, 29, 23, 59, 58, 123456000, time.UTC)
	day := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	id := pgtype.UUID{Bytes: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Valid: true}
	must(exec(connection, `INSERT INTO kind VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		1, int64(1)<<40, 0.5, "12.34", true, "é", day, at, at, id, []byte{0, 255}, []int32{1, 2, 3},
		map[string]any{"a": 1}))
	var (
		number  int32
		big     int64
		double  float64
		decimal pgtype.Numeric
		flag    bool
		text    string
		date    pgtype.Date
		local   time.Time
		instant time.Time
		uuid    pgtype.UUID
		bytes   []byte
		numbers []int32
		object  map[string]any
	)
	must(connection.QueryRow(ctx, "SELECT * FROM kind WHERE k_int = 1").Scan(
		&number, &big, &double, &decimal, &flag, &text, &date, &local, &instant, &uuid, &bytes, &numbers, &object))
	same := []bool{
		number == 1, big == 1<<40, double == 0.5, one(decimal.Value()) == "12.34", flag, text == "é",
		date.Time.Equal(day), local.Equal(at), instant.Equal(at), uuid == id, len(bytes) == 2 && bytes[1] == 255,
		fmt.Sprint(numbers) == "[1 2 3]", object["a"] == 1.0,
	}
	wrong := []int{}
	for place, is := range same {
		if !is {
			wrong = append(wrong, place)
		}
	}
	return fmt.Sprint(wrong)
}

func nulls(connection *pgx.Conn, _ string) string {
	must(exec(connection, "INSERT INTO kind (k_int, k_text) VALUES ($1, $2)", 2, nil))
	var (
		text    *string
		numbers []int32
		at      *time.Time
	)
	must(connection.QueryRow(ctx, "SELECT k_text, k_numbers, k_at FROM kind WHERE k_int = 2").Scan(&text, &numbers, &at))
	return fmt.Sprint(text == nil, " ", numbers == nil, " ", at == nil)
}

func exec(connection *pgx.Conn, sql string, values ...any) error {
	_, err := connection.Exec(ctx, sql, values...)
	return err
}

func batch(connection *pgx.Conn, _ string) string {
	work := &pgx.Batch{}
	for i := range 200 {
		work.Queue("INSERT INTO thing VALUES ($1, $2, $3)", 1000+i, fmt.Sprint("n", i), "1.00")
	}
	work.Queue("SELECT count(*) FROM thing WHERE t_id BETWEEN 1000 AND 1999")
	results := connection.SendBatch(ctx, work)
	inserted := int64(0)
	for range 200 {
		inserted += one(results.Exec()).RowsAffected()
	}
	var found int
	must(results.QueryRow().Scan(&found))
	must(results.Close())
	return fmt.Sprint(inserted, " ", found)
}

func failedBatch(connection *pgx.Conn, _ string) string {
	work := &pgx.Batch{}
	work.Queue("INSERT INTO thing VALUES (2000, 'a', 1)")
	work.Queue("INSERT INTO thing VALUES (2001, 'b', -1)")
	err := connection.SendBatch(ctx, work).Close()
	return fmt.Sprint(code(err), " ", count(connection, "t_id >= 2000"))
}

func copyRows(connection *pgx.Conn, _ string) string {
	price := pgtype.Numeric{}
	must(price.Scan("3.25"))
	given := [][]any{}
	for i := range 500 {
		given = append(given, []any{int32(3000 + i), fmt.Sprint("c", i), price})
	}
	columns := []string{"t_id", "t_name", "t_price"}
	copied := one(connection.CopyFrom(ctx, pgx.Identifier{"thing"}, columns, pgx.CopyFromRows(given)))
	return fmt.Sprint(copied, " ", count(connection, "t_id BETWEEN $1 AND $2", 3000, 3999))
}

func failedCopy(connection *pgx.Conn, _ string) string {
	given := [][]any{{int32(4000), "a"}, {int32(1), "b"}}
	_, err := connection.CopyFrom(ctx, pgx.Identifier{"thing"}, []string{"t_id", "t_name"}, pgx.CopyFromRows(given))
	return fmt.Sprint(code(err), " ", count(connection, "t_id = 4000"))
}

func rollback(connection *pgx.Conn, _ string) string {
	stop := errors.New("stop")
	err := pgx.BeginFunc(ctx, connection, func(transaction pgx.Tx) error {
		one(transaction.Exec(ctx, "INSERT INTO thing VALUES (5000, 'r', 1)"))
		return stop
	})
	return fmt.Sprint(errors.Is(err, stop), " ", count(connection, "t_id = 5000"))
}

func savepoint(connection *pgx.Conn, _ string) string {
	transaction := one(connection.Begin(ctx))
	one(transaction.Exec(ctx, "INSERT INTO thing VALUES (5001, 's', 1)"))
	inner := one(transaction.Begin(ctx))
	one(inner.Exec(ctx, "INSERT INTO thing VALUES (5002, 's', 1)"))
	must(inner.Rollback(ctx))
	must(transaction.Commit(ctx))
	return fmt.Sprint(count(connection, "t_id IN (5001, 5002)"))
}

func conflict(connection *pgx.Conn, url string) string {
	other := one(pgx.Connect(ctx, url))
	defer other.Close(ctx)
	transaction := one(connection.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.Serializable}))
	var name string
	must(transaction.QueryRow(ctx, "SELECT t_name FROM thing WHERE t_id = 1").Scan(&name))
	must(exec(other, "UPDATE thing SET t_name = 'other' WHERE t_id = 1"))
	_, err := transaction.Exec(ctx, "UPDATE thing SET t_name = t_name || '!' WHERE t_id = 1")
	if err == nil {
		err = transaction.Commit(ctx)
	} else {
		must(transaction.Rollback(ctx))
	}
	must(connection.QueryRow(ctx, "SELECT t_name FROM thing WHERE t_id = 1").Scan(&name))
	return code(err) + " " + name
}

func readOnly(connection *pgx.Conn, _ string) string {
	transaction := one(connection.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly}))
	_, err := transaction.Exec(ctx, "INSERT INTO thing VALUES (5003, 'o', 1)")
	must(transaction.Rollback(ctx))
	return code(err)
}

func failures(connection *pgx.Conn, _ string) string {
	words := []string{}
	for _, sql := range []string{
		"SELEC 1", "SELECT nothing FROM thing", "SELECT * FROM nowhere", "INSERT INTO thing VALUES (2, 'x', 1)",
		"INSERT INTO thing (t_id) VALUES (6000)", "INSERT INTO line VALUES (7777, 1)", "SELECT 1 / 0",
	} {
		words = append(words, code(exec(connection, sql)))
	}
	var refused *pgconn.PgError
	errors.As(exec(connection, "INSERT INTO thing VALUES (6001, 'x', -1)"), &refused)
	return strings.Join(append(words, refused.Code, refused.TableName), " ")
}

func cancel(connection *pgx.Conn, url string) string {
	other := one(pgx.Connect(ctx, url))
	defer other.Close(ctx)
	limited, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err := other.Exec(limited, "SELECT count(*) FROM generate_series(1, 100000) AS a (x), generate_series(1, 100000) AS b (y) WHERE a.x % 7 = b.y % 5")
	return fmt.Sprint(errors.Is(err, context.DeadlineExceeded), " ", count(connection, "t_id = 2"))
}

func pool(_ *pgx.Conn, url string) string {
	connections := one(pgxpool.New(ctx, url))
	defer connections.Close()
	var waiting sync.WaitGroup
	answers := make([]int, 8)
	for i := range answers {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			for range 20 {
				must(connections.QueryRow(ctx, "SELECT $1::int + 1", i).Scan(&answers[i]))
			}
		}()
	}
	waiting.Wait()
	return fmt.Sprint(answers)
}

func standard(_ *pgx.Conn, url string) string {
	database := one(sql.Open("pgx", url))
	defer database.Close()
	prepared := one(database.Prepare("SELECT t_name, t_price FROM thing WHERE t_id = $1"))
	var (
		name  string
		price sql.NullString
	)
	must(prepared.QueryRow(2).Scan(&name, &price))
	transaction := one(database.Begin())
	result := one(transaction.Exec("UPDATE thing SET t_price = t_price + 1 WHERE t_id BETWEEN $1 AND $2", 3000, 3009))
	must(transaction.Commit())
	return fmt.Sprint(name, " ", price.String, " ", one(result.RowsAffected()))
}
