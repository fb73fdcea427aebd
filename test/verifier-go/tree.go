package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

func leafHash(entry []byte) []byte {
	sum := sha256.Sum256(append([]byte{0}, entry...))
	return sum[:]
}

func nodeHash(left, right []byte) []byte {
	sum := sha256.Sum256(append(append([]byte{1}, left...), right...))
	return sum[:]
}

// rootOf is MTH of RFC 6962, section 2.1, over leaf hashes.
func rootOf(leaves [][]byte) []byte {
	switch len(leaves) {
	case 0:
		sum := sha256.Sum256(nil)
		return sum[:]
	case 1:
		return leaves[0]
	}
	split := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
	return nodeHash(rootOf(leaves[:split]), rootOf(leaves[split:]))
}

type checkpoint struct {
	origin string
	size   int64
	root   []byte
}

// openCheckpoint verifies the signature of a key on a checkpoint.
func openCheckpoint(note, verifierKey string) (*checkpoint, error) {
	end := strings.LastIndex(note, "\n\n")
	if end < 0 {
		return nil, fmt.Errorf("the checkpoint has no signatures")
	}
	text := note[:end+1]
	lines := strings.Split(text, "\n")
	if len(lines) != 4 || lines[3] != "" {
		return nil, fmt.Errorf("the checkpoint has %d lines", len(lines)-1)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return nil, err
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != sha256.Size {
		return nil, fmt.Errorf("the root is not a hash in base64")
	}
	parts := strings.SplitN(strings.TrimSpace(verifierKey), "+", 3)
	if len(parts) != 3 {
		return nil, fmt.Errorf("not a verifier key")
	}
	name := parts[0]
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 1+ed25519.PublicKeySize || key[0] != 1 {
		return nil, fmt.Errorf("not an Ed25519 key of a log")
	}
	id := sha256.Sum256(append([]byte(name+"\n"), key...))
	if hex.EncodeToString(id[:4]) != parts[1] {
		return nil, fmt.Errorf("the key ID is not that of the key")
	}
	if lines[0] != name {
		return nil, fmt.Errorf("the checkpoint is of %s, and the key of %s", lines[0], name)
	}
	for _, line := range strings.Split(strings.TrimSuffix(note[end+2:], "\n"), "\n") {
		words := strings.Split(line, " ")
		if len(words) != 3 || words[0] != "—" {
			return nil, fmt.Errorf("not a signature line: %s", line)
		}
		signature, err := base64.StdEncoding.DecodeString(words[2])
		if err != nil || len(signature) < 4 {
			return nil, fmt.Errorf("not a signature: %s", line)
		}
		if words[1] != name || !bytes.Equal(signature[:4], id[:4]) {
			continue
		}
		if !ed25519.Verify(key[1:], []byte(text), signature[4:]) {
			return nil, fmt.Errorf("the signature of %s is wrong", name)
		}
		return &checkpoint{lines[0], size, root}, nil
	}
	return nil, fmt.Errorf("the checkpoint is not signed by this key")
}
