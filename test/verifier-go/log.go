package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

const tileWidth = 256

// tilePath is the path of a tile or bundle, as c2sp.org/tlog-tiles writes it.
func tilePath(level string, number, width int64) string {
	path := fmt.Sprintf("%03d", number%1000)
	for number /= 1000; number > 0; number /= 1000 {
		path = fmt.Sprintf("x%03d/%s", number%1000, path)
	}
	path = "tile/" + level + "/" + path
	if width < tileWidth {
		path += ".p/" + strconv.FormatInt(width, 10)
	}
	return path
}

func splitBundle(bundle []byte) ([][]byte, error) {
	var entries [][]byte
	for len(bundle) > 0 {
		if len(bundle) < 2 {
			return nil, fmt.Errorf("a bundle ends within a length")
		}
		length := int(binary.BigEndian.Uint16(bundle))
		if len(bundle) < 2+length {
			return nil, fmt.Errorf("a bundle ends within an entry")
		}
		entries = append(entries, bundle[2:2+length])
		bundle = bundle[2+length:]
	}
	return entries, nil
}

// What a log contains, for comparison with what others say of it.
type summary struct {
	Origin  string           `json:"origin"`
	Size    int64            `json:"size"`
	Root    string           `json:"root"`
	Types   map[string]int64 `json:"types"`
	Streams int              `json:"streams"`
	Cost    int64            `json:"cost_nanousd"`
	Ends    map[string]int64 `json:"end_reasons"`
}

func checkLog(f *format, directory, key string) (*summary, error) {
	note, err := os.ReadFile(filepath.Join(directory, "checkpoint"))
	if err != nil {
		return nil, err
	}
	head, err := openCheckpoint(string(note), key)
	if err != nil {
		return nil, err
	}
	s := &summary{
		Origin: head.origin,
		Size:   head.size,
		Root:   base64.StdEncoding.EncodeToString(head.root),
		Types:  map[string]int64{},
		Ends:   map[string]int64{},
	}
	versions := map[string]int64{}
	var leaves [][]byte
	for first := int64(0); first < head.size; first += tileWidth {
		width := min(tileWidth, head.size-first)
		bundle, err := os.ReadFile(filepath.Join(directory, tilePath("entries", first/tileWidth, width)))
		if err != nil {
			return nil, err
		}
		entries, err := splitBundle(bundle)
		if err != nil {
			return nil, err
		}
		if int64(len(entries)) != width {
			return nil, fmt.Errorf("a bundle has %d entries instead of %d", len(entries), width)
		}
		tile, err := os.ReadFile(filepath.Join(directory, tilePath("0", first/tileWidth, width)))
		if err != nil {
			return nil, err
		}
		for at, entry := range entries {
			position := first + int64(at) + 1
			leaf := leafHash(entry)
			if (at+1)*sha256.Size > len(tile) || !bytes.Equal(leaf, tile[at*sha256.Size:(at+1)*sha256.Size]) {
				return nil, fmt.Errorf("position %d: the entry does not have the hash in its tile", position)
			}
			leaves = append(leaves, leaf)
			e, err := f.decode(string(entry), position)
			if err != nil {
				return nil, fmt.Errorf("position %d: %w", position, err)
			}
			if err := s.add(f, e, versions); err != nil {
				return nil, fmt.Errorf("position %d: %w", position, err)
			}
		}
	}
	if !bytes.Equal(rootOf(leaves), head.root) {
		return nil, fmt.Errorf("the root of %d entries is not the signed one", len(leaves))
	}
	s.Streams = len(versions)
	return s, nil
}

func (s *summary) add(f *format, e *event, versions map[string]int64) error {
	s.Types[e.name]++
	if cost, isThere := e.columns["cost_nanousd"]; isThere {
		value, err := strconv.ParseInt(cost, 10, 64)
		if err != nil {
			return err
		}
		s.Cost += value
	}
	if reason, isThere := e.columns["end_reason"]; isThere {
		number, _ := strconv.Atoi(reason)
		s.Ends[f.codes["end_reason"][number]]++
	}
	if stream, isThere := e.columns["stream"]; isThere {
		versions[stream]++
		if e.columns["version"] != strconv.FormatInt(versions[stream], 10) {
			return fmt.Errorf("version %s of %s instead of %d", e.columns["version"], stream, versions[stream])
		}
	}
	return nil
}

type vectors struct {
	LogID       string `json:"log_id"`
	Origin      string `json:"origin"`
	VerifierKey string `json:"verifier_key"`
	Genesis     string `json:"genesis"`
	Events      []struct {
		Columns map[string]string `json:"columns"`
		Entry   string            `json:"entry"`
		Leaf    string            `json:"leaf"`
	} `json:"events"`
	Batches []struct {
		Row   string `json:"row"`
		Lines string `json:"lines"`
		Chain string `json:"chain"`
	} `json:"batches"`
	Roots      []string `json:"roots"`
	Checkpoint string   `json:"checkpoint"`
	Bundle     string   `json:"bundle"`
}

func checkVectors(f *format, file string) (any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, err
	}
	var leaves [][]byte
	for at, each := range v.Events {
		fields := make([]*string, len(f.columns))
		for column, c := range f.columns {
			if value, isThere := each.Columns[c.name]; isThere {
				fields[column] = &value
			}
		}
		if formatEntry(fields) != each.Entry {
			return nil, fmt.Errorf("event %d: the entry of its columns is %s", at+1, formatEntry(fields))
		}
		if _, err := f.decode(each.Entry, int64(at+1)); err != nil {
			return nil, fmt.Errorf("event %d: %w", at+1, err)
		}
		leaf := leafHash([]byte(each.Entry))
		if hex.EncodeToString(leaf) != each.Leaf {
			return nil, fmt.Errorf("event %d: its leaf hash is %x", at+1, leaf)
		}
		leaves = append(leaves, leaf)
	}
	if err := v.checkChain(); err != nil {
		return nil, err
	}
	for size, root := range v.Roots {
		if hex.EncodeToString(rootOf(leaves[:size])) != root {
			return nil, fmt.Errorf("the root of %d events is %x", size, rootOf(leaves[:size]))
		}
	}
	head, err := openCheckpoint(v.Checkpoint, v.VerifierKey)
	if err != nil {
		return nil, err
	}
	if head.origin != v.Origin || head.size != int64(len(leaves)) || !bytes.Equal(head.root, rootOf(leaves)) {
		return nil, fmt.Errorf("the checkpoint is not that of the events")
	}
	bundle, err := base64.StdEncoding.DecodeString(v.Bundle)
	if err != nil {
		return nil, err
	}
	entries, err := splitBundle(bundle)
	if err != nil {
		return nil, err
	}
	for at, entry := range entries {
		if string(entry) != v.Events[at].Entry {
			return nil, fmt.Errorf("event %d: its entry in the bundle differs", at+1)
		}
	}
	return map[string]int{"events": len(v.Events), "batches": len(v.Batches), "roots": len(v.Roots),
		"bundled": len(entries)}, nil
}

func (v *vectors) checkChain() error {
	genesis := sha256.Sum256([]byte("daybook log " + v.LogID))
	if hex.EncodeToString(genesis[:]) != v.Genesis {
		return fmt.Errorf("the first chain value is %x", genesis)
	}
	c := chain{value: genesis[:]}
	for at, batch := range v.Batches {
		entries, err := c.add(batch.Row, batch.Lines, batch.Chain)
		if err != nil {
			return fmt.Errorf("batch %d: %w", at+1, err)
		}
		for index, entry := range entries {
			if position := int(c.position) - len(entries) + index + 1; v.Events[position-1].Entry != entry {
				return fmt.Errorf("batch %d: the entry at position %d is %s", at+1, position, entry)
			}
		}
	}
	if int(c.position) != len(v.Events) {
		return fmt.Errorf("the batches have %d events", c.position)
	}
	return nil
}
