package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// A column of the log, as the table "Columns" has it.
type column struct {
	name, kind    string
	isCommon      bool
	always, maybe map[string]bool
}

type format struct {
	columns []column
	// The name and the stream of each type of event, by its code.
	types   map[int]string
	streams map[int]string
	// The names of the codes of other columns.
	codes map[string]map[int]string
}

func readFormat(file string) (*format, error) {
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f := &format{types: map[int]string{}, streams: map[int]string{}, codes: map[string]map[int]string{}}
	for _, cells := range tableOf(string(page), "columns") {
		f.columns = append(f.columns, column{
			name:     unquote(cells[1]),
			kind:     cells[2],
			isCommon: cells[3] == "all",
			always:   setOf(cells[3]),
			maybe:    setOf(cells[4]),
		})
	}
	for _, cells := range tableOf(string(page), "types") {
		code, err := strconv.Atoi(cells[0])
		if err != nil {
			return nil, err
		}
		f.types[code], f.streams[code] = unquote(cells[1]), unquote(cells[2])
	}
	for _, cells := range tableOf(string(page), "codes") {
		code, err := strconv.Atoi(cells[1])
		if err != nil {
			return nil, err
		}
		name := unquote(cells[0])
		if f.codes[name] == nil {
			f.codes[name] = map[int]string{}
		}
		f.codes[name][code] = unquote(cells[2])
	}
	if len(f.columns) == 0 || len(f.types) == 0 || len(f.codes) == 0 {
		return nil, fmt.Errorf("%s has no tables of columns and codes", file)
	}
	return f, nil
}

// The cells of the rows of a generated table.
func tableOf(page, section string) [][]string {
	_, rest, _ := strings.Cut(page, "<!-- "+section+" -->")
	text, _, _ := strings.Cut(rest, "<!-- /"+section+" -->")
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for at := range cells {
			cells[at] = strings.TrimSpace(cells[at])
		}
		rows = append(rows, cells)
	}
	return rows
}

func unquote(cell string) string { return strings.Trim(cell, "`") }

func setOf(cell string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Split(cell, ",") {
		set[unquote(strings.TrimSpace(name))] = true
	}
	return set
}

// parseEntry returns the fields of an entry, nil for null.
func parseEntry(entry string) ([]*string, error) {
	if len(entry) < 2 || entry[0] != '(' || entry[len(entry)-1] != ')' {
		return nil, fmt.Errorf("an entry is not in parentheses")
	}
	var fields []*string
	for at := 1; ; at++ {
		var value strings.Builder
		isNull := true
		if entry[at] == '"' {
			isNull = false
			for at++; ; at++ {
				if at >= len(entry)-1 {
					return nil, fmt.Errorf("a quoted field does not end")
				}
				if entry[at] == '"' && entry[at+1] != '"' {
					at++
					break
				}
				if entry[at] == '"' || entry[at] == '\\' {
					at++
				}
				value.WriteByte(entry[at])
			}
		} else {
			for entry[at] != ',' && entry[at] != ')' {
				isNull = false
				value.WriteByte(entry[at])
				at++
			}
		}
		if isNull {
			fields = append(fields, nil)
		} else {
			text := value.String()
			fields = append(fields, &text)
		}
		if at == len(entry)-1 {
			return fields, nil
		}
		if entry[at] != ',' {
			return nil, fmt.Errorf("after a field stands %q", entry[at])
		}
	}
}

var mustQuote = regexp.MustCompile("[ \t\n\v\f\r\"\\\\(),]")

// formatEntry is the inverse of parseEntry: an event has exactly one entry.
func formatEntry(fields []*string) string {
	texts := make([]string, len(fields))
	for at, field := range fields {
		switch {
		case field == nil:
		case *field == "" || mustQuote.MatchString(*field):
			texts[at] = `"` + strings.NewReplacer(`"`, `""`, `\`, `\\`).Replace(*field) + `"`
		default:
			texts[at] = *field
		}
	}
	return "(" + strings.Join(texts, ",") + ")"
}

var kinds = map[string]*regexp.Regexp{
	"integer":   regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`),
	"timestamp": regexp.MustCompile(`^(0|[1-9][0-9]*)$`),
	"boolean":   regexp.MustCompile(`^[tf]$`),
	"uuid":      regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
	"text":      regexp.MustCompile(`^[\x20-\x7e]*$`),
}

// An event, decoded: its type, and the columns that are not null.
type event struct {
	name    string
	columns map[string]string
	body    map[string]any
}

// decode parses an entry and checks it against the tables.
func (f *format) decode(entry string, position int64) (*event, error) {
	fields, err := parseEntry(entry)
	if err != nil {
		return nil, err
	}
	if len(fields) != len(f.columns) {
		return nil, fmt.Errorf("%d fields instead of %d", len(fields), len(f.columns))
	}
	if formatEntry(fields) != entry {
		return nil, fmt.Errorf("the entry is not the canonical one of its fields")
	}
	e := &event{columns: map[string]string{}}
	for at, field := range fields {
		if field == nil {
			continue
		}
		c := f.columns[at]
		if !kinds[c.kind].MatchString(*field) {
			return nil, fmt.Errorf("%s is no %s: %q", c.name, c.kind, *field)
		}
		e.columns[c.name] = *field
	}
	if e.columns["position"] != strconv.FormatInt(position, 10) {
		return nil, fmt.Errorf("position %s instead of %d", e.columns["position"], position)
	}
	code, _ := strconv.Atoi(e.columns["type"])
	name, isKnown := f.types[code]
	if !isKnown {
		if code >= 1000 {
			return e, nil
		}
		return nil, fmt.Errorf("type %d is not known", code)
	}
	e.name = name
	role := name
	if f.streams[code] != "" {
		role = "control"
	}
	for _, c := range f.columns {
		value, isThere := e.columns[c.name]
		if (c.isCommon || c.always[role]) && !isThere {
			return nil, fmt.Errorf("%s has no %s", name, c.name)
		}
		if isThere && !c.isCommon && !c.always[role] && !c.maybe[role] {
			return nil, fmt.Errorf("%s has a %s", name, c.name)
		}
		if codes := f.codes[c.name]; isThere && codes != nil {
			number, _ := strconv.Atoi(value)
			if codes[number] == "" {
				return nil, fmt.Errorf("%s has the unknown code %s", c.name, value)
			}
		}
	}
	if body, isThere := e.columns["body"]; isThere {
		if err := json.Unmarshal([]byte(body), &e.body); err != nil {
			return nil, fmt.Errorf("the body of %s: %w", name, err)
		}
	}
	return e, nil
}
