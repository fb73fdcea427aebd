// A verifier of the log that shares no code with Daybook. It is written from docs/audit-format.md, which
// it also reads: the tables of columns and codes there are its only knowledge of them.
//
//	verifier vectors AUDIT-FORMAT.md AUDIT-VECTORS.json
//	verifier log     AUDIT-FORMAT.md DIRECTORY VERIFIER-KEY
//	verifier file    AUDIT-FORMAT.md FILE
//
// The first checks the test vectors; the second checks a directory of c2sp.org/tlog-tiles and decodes all of
// its entries; the third checks the chain of an exported file, decompressed, and decodes its events. Each
// prints one JSON object. The exit code is 1 on the first problem.
package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: verifier vectors FORMAT VECTORS | verifier log FORMAT DIRECTORY KEY | verifier file FORMAT FILE"))
	}
	format, err := readFormat(os.Args[2])
	if err != nil {
		fail(err)
	}
	var result any
	switch os.Args[1] {
	case "vectors":
		result, err = checkVectors(format, os.Args[3])
	case "log":
		if len(os.Args) != 5 {
			fail(fmt.Errorf("usage: verifier log FORMAT DIRECTORY KEY"))
		}
		result, err = checkLog(format, os.Args[3], os.Args[4])
	case "file":
		result, err = checkFile(format, os.Args[3])
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "verifier:", err)
	os.Exit(1)
}
