// Command linearizability judges histories of operations on independent keys with Porcupine.
//
// It reads one history per line of standard input, or of the file that its argument names, and
// answers each with one line: {"verdict": "ok" | "illegal" | "unknown", "key", "description"}.
// Unknown means that time ran out: it proves nothing and must not pass. Each key is judged by
// itself, for linearizability is local: a history is linearizable if and only if each key's is.
//
// An operation of unknown outcome never returns, so it may take effect at any time after its call.
// After everything else is as good as never, for every step of such an operation is possible in
// every state: it has no result that could contradict.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

type history struct {
	TimeoutMs  int64          `json:"timeout_ms"` // for each key
	Initial    map[string]row `json:"initial"`    // other keys have no row at first
	Operations []*operation   `json:"operations"`
}

type verdict struct {
	Verdict     string `json:"verdict"`
	Key         string `json:"key,omitempty"`
	Description string `json:"description,omitempty"`
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "linearizability:", err)
		os.Exit(2)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) > 1 {
		return errors.New("usage: linearizability [file]")
	}
	if len(args) == 1 {
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	lines, answers := bufio.NewReader(in), json.NewEncoder(out)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return err
		}
		if len(strings.TrimSpace(string(line))) > 0 {
			judged, problem := judge(line)
			if problem != nil {
				return fmt.Errorf("history %d: %w", number, problem)
			}
			if problem := answers.Encode(judged); problem != nil {
				return problem
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

func judge(line []byte) (verdict, error) {
	var h history
	decoder := json.NewDecoder(strings.NewReader(string(line)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&h); err != nil {
		return verdict{}, err
	}
	if h.TimeoutMs <= 0 {
		return verdict{}, errors.New("timeout_ms must be positive")
	}
	byKey, err := partition(h.Operations)
	if err != nil {
		return verdict{}, err
	}
	keys := make([]string, 0, len(byKey))
	for key := range byKey {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	worst := verdict{Verdict: "ok"}
	for _, key := range keys {
		judged := judgeKey(key, h.Initial[key], byKey[key], time.Duration(h.TimeoutMs)*time.Millisecond)
		if judged.Verdict == "illegal" {
			return judged, nil
		}
		if judged.Verdict == "unknown" {
			worst = judged
		}
	}
	return worst, nil
}

// partition sorts operations by key and leaves out what cannot have had an effect.
func partition(operations []*operation) (map[string][]porcupine.Operation, error) {
	byKey := map[string][]porcupine.Operation{}
	for number, op := range operations {
		if err := op.prepare(); err != nil {
			return nil, fmt.Errorf("operation %d: %w", number, err)
		}
		if op.Outcome == "failed" || (op.Outcome == "unknown" && op.Kind == "read") {
			continue
		}
		returned := int64(math.MaxInt64)
		if op.Outcome == "ok" {
			returned = *op.Return
		}
		byKey[op.Key] = append(byKey[op.Key], porcupine.Operation{
			Input: op, Call: op.Call, Return: returned,
		})
	}
	return byKey, nil
}

func judgeKey(
	key string, initial row, operations []porcupine.Operation, limit time.Duration,
) verdict {
	switch porcupine.CheckOperationsTimeout(model(initial), operations, limit) {
	case porcupine.Ok:
		return verdict{Verdict: "ok"}
	case porcupine.Illegal:
		return verdict{"illegal", key, describe(initial, operations, limit)}
	default:
		text := fmt.Sprintf("no verdict on %d operations after %s", len(operations), limit)
		return verdict{"unknown", key, text}
	}
}

// describe tells how far an order of the operations goes, and what cannot come next.
func describe(initial row, operations []porcupine.Operation, limit time.Duration) string {
	_, info := porcupine.CheckOperationsVerbose(model(initial), operations, limit)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	state, ordered := any(initial), map[*operation]bool{}
	var tail []string
	for _, done := range longest {
		op := done.Input.(*operation)
		_, state = step(state, op, nil)
		ordered[op] = true
		tail = append(tail, op.String())
	}
	if len(tail) > 5 {
		tail = append([]string{fmt.Sprintf("%d others", len(tail)-5)}, tail[len(tail)-5:]...)
	}
	return fmt.Sprintf(
		"in order: %s; then it holds %s, and none of these can follow: %s",
		orNothing(tail), state, orNothing(candidates(operations, ordered)),
	)
}

// candidates are the operations that could come next in time: called before any other returned.
func candidates(operations []porcupine.Operation, ordered map[*operation]bool) []string {
	deadline := int64(math.MaxInt64)
	for _, op := range operations {
		if !ordered[op.Input.(*operation)] {
			deadline = min(deadline, op.Return)
		}
	}
	var names []string
	for _, op := range operations {
		if input := op.Input.(*operation); !ordered[input] && op.Call <= deadline {
			names = append(names, input.String())
		}
	}
	return names
}

func orNothing(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
