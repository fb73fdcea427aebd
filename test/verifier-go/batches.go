package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// The chain up to a position.
type chain struct {
	value    []byte
	position int64
}

// add checks a batch that continues the chain. It returns the entries of its events.
func (c *chain) add(row, lines, value string) ([]string, error) {
	fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(row, "("), ")"), ",")
	if len(fields) != 7 || "("+strings.Join(fields, ",")+")" != row {
		return nil, fmt.Errorf("no row of a batch: %s", row)
	}
	numbers := make([]int64, len(fields))
	for at, field := range fields {
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, err
		}
		numbers[at] = number
	}
	last, count, instance, at, version := numbers[1], numbers[2], numbers[3], numbers[5], numbers[6]
	events := strings.Split(lines, "\n")
	if version != 1 {
		return nil, fmt.Errorf("format %d is not known", version)
	}
	if int64(len(events)) != count || last != c.position+count {
		return nil, fmt.Errorf("%d events after position %d, and the row says %d up to %d", len(events),
			c.position, count, last)
	}
	digest := sha256.Sum256([]byte(lines))
	sum := sha256.Sum256(bytes.Join([][]byte{c.value, digest[:], []byte(row)}, nil))
	if hex.EncodeToString(sum[:]) != value {
		return nil, fmt.Errorf("its chain value is %x", sum)
	}
	entries := make([]string, len(events))
	for index, line := range events {
		position := c.position + int64(index) + 1
		entries[index] = fmt.Sprintf("(%d,%d,%d,%d,%s", numbers[0], position, at, instance,
			strings.TrimPrefix(line, "("))
	}
	c.value, c.position = sum[:], last
	return entries, nil
}

type header struct {
	Archive string `json:"archive"`
	LogID   string `json:"log_id"`
	First   int64  `json:"first_position"`
	Last    int64  `json:"last_position"`
	Before  string `json:"chain_before"`
}

// checkFile checks an exported file, decompressed.
func checkFile(f *format, file string) (any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		return nil, fmt.Errorf("the last line has no end")
	}
	reader := bufio.NewScanner(bytes.NewReader(text))
	reader.Buffer(nil, 1<<20)
	var h header
	var c chain
	var row, value string
	var lines []string
	batches := 0
	endBatch := func() error {
		if row == "" {
			return nil
		}
		batches++
		entries, err := c.add(row, strings.Join(lines, "\n"), value)
		if err != nil {
			return fmt.Errorf("after position %d: %w", c.position, err)
		}
		for index, entry := range entries {
			position := c.position - int64(len(entries)-index-1)
			if _, err := f.decode(entry, position); err != nil {
				return fmt.Errorf("position %d: %w", position, err)
			}
		}
		lines = nil
		return nil
	}
	for reader.Scan() {
		line := reader.Text()
		switch {
		case h.Archive == "":
			if err := json.Unmarshal([]byte(line), &h); err != nil {
				return nil, err
			}
			if h.Archive != "daybook log 1" {
				return nil, fmt.Errorf("%q is no file of a log", h.Archive)
			}
			before, err := hex.DecodeString(h.Before)
			if err != nil {
				return nil, err
			}
			c = chain{value: before, position: h.First - 1}
		case strings.HasPrefix(line, "("):
			lines = append(lines, line)
		default:
			if err := endBatch(); err != nil {
				return nil, err
			}
			value, row, _ = strings.Cut(line, " ")
		}
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if err := endBatch(); err != nil {
		return nil, err
	}
	if c.position != h.Last {
		return nil, fmt.Errorf("the file ends at position %d instead of %d", c.position, h.Last)
	}
	return map[string]any{"first": h.First, "last": h.Last, "batches": batches,
		"chain": hex.EncodeToString(c.value)}, nil
}
