package main

import (
	"encoding/json"
	"fmt"

	"github.com/anishathalye/porcupine"
)

// row is the state of one key: a number, or no row at all.
type row struct {
	exists bool
	value  int64
}

// UnmarshalJSON reads a number, or null for no row.
func (r *row) UnmarshalJSON(text []byte) error {
	var value *int64
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	*r = row{}
	if value != nil {
		*r = row{true, *value}
	}
	return nil
}

func (r row) String() string {
	if !r.exists {
		return "no row"
	}
	return fmt.Sprint(r.value)
}

// operation is what a client did to one key, and what it was told.
type operation struct {
	Process  int64           `json:"process"`
	Key      string          `json:"key"`
	Kind     string          `json:"kind"`
	Argument row             `json:"argument"`
	Expected row             `json:"expected"` // what a cas compares with
	Result   json.RawMessage `json:"result"`   // left out when the client was not told
	Call     int64           `json:"call"`
	Return   *int64          `json:"return"` // null when no answer came
	Outcome  string          `json:"outcome"`

	told    bool
	row     row  // the result of a read or an add
	swapped bool // the result of a cas
}

// prepare reads the result, which has a type of its own for each kind, and refuses nonsense.
func (o *operation) prepare() error {
	o.told = o.Outcome == "ok" && o.Result != nil
	switch {
	case o.Outcome != "ok" && o.Outcome != "unknown" && o.Outcome != "failed":
		return fmt.Errorf("%q is not an outcome", o.Outcome)
	case o.Outcome == "ok" && o.Return == nil:
		return fmt.Errorf("an operation that is ok has returned")
	case o.Return != nil && *o.Return < o.Call:
		return fmt.Errorf("it returned at %d, before its call at %d", *o.Return, o.Call)
	}
	switch o.Kind {
	case "read":
		if o.Outcome == "ok" && !o.told {
			return fmt.Errorf("a read that is ok has a result")
		}
	case "write":
		o.told = false
		return nil
	case "add":
		if !o.Argument.exists {
			return fmt.Errorf("an add needs a number")
		}
	case "cas":
		if !o.told {
			return nil
		}
		if string(o.Result) == "null" {
			return fmt.Errorf("the result of a cas is true or false")
		}
		return json.Unmarshal(o.Result, &o.swapped)
	default:
		return fmt.Errorf("%q is not a kind of operation", o.Kind)
	}
	if o.told {
		return json.Unmarshal(o.Result, &o.row)
	}
	return nil
}

// step says whether the operation can have answered as it did in that state, and what it leaves.
func step(state, input, _ any) (bool, any) {
	now, op := state.(row), input.(*operation)
	switch op.Kind {
	case "read":
		return now == op.row, now
	case "write":
		return true, op.Argument
	case "add":
		next := now
		if now.exists {
			next.value += op.Argument.value
		}
		return !op.told || next == op.row, next
	default: // cas
		swaps := now == op.Expected
		next := now
		if swaps {
			next = op.Argument
		}
		return !op.told || swaps == op.swapped, next
	}
}

func (o *operation) String() string {
	result := "?"
	if o.told && o.Kind == "cas" {
		result = fmt.Sprint(o.swapped)
	} else if o.told {
		result = o.row.String()
	}
	interval := fmt.Sprintf("[%d, …)", o.Call)
	if o.Outcome == "ok" {
		interval = fmt.Sprintf("[%d, %d]", o.Call, *o.Return)
	}
	who := fmt.Sprintf("process %d %s", o.Process, interval)
	switch o.Kind {
	case "read":
		return fmt.Sprintf("%s read %s", who, result)
	case "write":
		return fmt.Sprintf("%s wrote %s", who, o.Argument)
	case "add":
		return fmt.Sprintf("%s added %s giving %s", who, o.Argument, result)
	default:
		return fmt.Sprintf("%s swapped %s for %s: %s", who, o.Expected, o.Argument, result)
	}
}

// model is one key on its own; initial is what it holds at first.
func model(initial row) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: step,
		Hash: func(state any) uint64 {
			r := state.(row)
			if !r.exists {
				return 0
			}
			return uint64(r.value)*0x9e3779b97f4a7c15 + 1
		},
	}
}
