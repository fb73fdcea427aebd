import { hash, generateKeyPairSync } from 'node:crypto';
import { verifyCheckpoint } from '@sigstore/verify/dist/tlog/checkpoint.js';
import { verifyMerkleInclusion } from '@sigstore/verify/dist/tlog/merkle.js';
import { CoMETRE } from '@transmute/rfc9162';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { openCheckpoint, parseCheckpoint, signCheckpoint } from '#db/tlog/checkpoint.ts';
import { subtreeHash, EMPTY_ROOT, joinedHash, nodeHash, subtreesOf } from '#db/tlog/merkle.ts';
import {
  formatNote,
  formatVerifierKey,
  NoteError,
  parseNote,
  parseVerifierKey,
  signerOf,
  signText,
  verifyNote,
} from '#db/tlog/note.ts';
import {
  consistencySpans,
  inclusionSpans,
  isConsistent,
  type ReadHashes,
  readSpans,
  rootByInclusion,
} from '#db/tlog/proof.ts';
import { anyCharacter } from '../../support/arbitrary-character.ts';
import { GrowingTree } from '../../support/audit/growing-tree.ts';

/** An independent implementation of the same trees. */
const THEIRS = CoMETRE.RFC9162_SHA256;

const leafOfText = (text: string): Buffer =>
  hash('sha256', Buffer.concat([Buffer.of(0), Buffer.from(text)]), 'buffer');
const leavesOf = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, at) => leafOfText(`entry ${at}`));
const readFrom =
  (leaves: readonly Buffer[]): ReadHashes =>
  async (subtrees) =>
    subtrees.map(({ level, number }) =>
      subtreeHash(leaves.slice(number * 2 ** level, (number + 1) * 2 ** level)),
    );

function headOf(leaves: readonly Buffer[]): { size: number; root: Buffer } {
  const tree = new GrowingTree();
  for (const leaf of leaves) tree.append(leaf);
  return { size: tree.size, root: tree.root() };
}

const newSigner = (name: string, kind: 'ed25519' | 'cosignature' = 'ed25519') =>
  signerOf(name, kind, generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }));

const SIZES = fc.integer({ min: 1, max: 300 });

describe('Merkle tree', () => {
  test('merkle: roots equal the test vectors of Certificate Transparency', () => {
    const entries = [
      '',
      '00',
      '10',
      '2021',
      '3031',
      '40414243',
      '5051525354555657',
      '606162636465666768696a6b6c6d6e6f',
    ];
    const leaves = entries.map((hex) =>
      hash('sha256', Buffer.concat([Buffer.of(0), Buffer.from(hex, 'hex')]), 'buffer'),
    );
    const roots = leaves.map((_, at) => headOf(leaves.slice(0, at + 1)).root.toString('hex'));
    expect(EMPTY_ROOT.toString('hex')).toBe(
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    );
    expect(roots).toEqual([
      '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
      'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
      'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
      '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
      '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
      'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
      '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
    ]);
  });

  test('merkle: roots of any size equal another implementation, also when grown by subtrees', async () => {
    await fc.assert(
      fc.asyncProperty(SIZES, fc.nat(), async (size, seed) => {
        const leaves = leavesOf(size);
        const from = seed % (size + 1);
        const tree = new GrowingTree();
        for (const leaf of leaves.slice(0, from)) tree.append(leaf);
        for (const { level, number } of subtreesOf(from, size))
          tree.appendSubtree(
            level,
            subtreeHash(leaves.slice(number * 2 ** level, (number + 1) * 2 ** level)),
          );
        expect(tree.root()).toEqual(headOf(leaves).root);
        expect(
          joinedHash(
            subtreesOf(0, size).map(({ level, number }) =>
              subtreeHash(leaves.slice(number * 2 ** level, (number + 1) * 2 ** level)),
            ),
          ),
        ).toEqual(tree.root());
        expect(Buffer.from(await THEIRS.root(leaves))).toEqual(tree.root());
      }),
    );
  });
});

describe('proofs', () => {
  test('inclusion proof: verifies here and in two other implementations, for its event alone', async () => {
    await fc.assert(
      fc.asyncProperty(SIZES, fc.nat(), async (size, seed) => {
        const leaves = leavesOf(size);
        const index = seed % size;
        const { root } = headOf(leaves);
        const proof = await readSpans(inclusionSpans(index, size), readFrom(leaves));
        const leaf = leaves[index] as Buffer;
        expect(rootByInclusion(leaf, index, size, proof)).toEqual(root);
        const inclusionProof = {
          logIndex: String(index),
          rootHash: root,
          treeSize: String(size),
          hashes: proof,
        };
        const entry = (text: string) => ({ canonicalizedBody: Buffer.from(text), inclusionProof }) as never;
        const head = { logSize: BigInt(size), logHash: root } as never;
        verifyMerkleInclusion(entry(`entry ${index}`), head);
        expect(() => verifyMerkleInclusion(entry('another entry'), head)).toThrow();
        expect(
          Buffer.from(
            await THEIRS.verify_inclusion_proof(leaf, {
              log_id: '',
              tree_size: size,
              leaf_index: index,
              inclusion_path: proof,
            }),
          ),
        ).toEqual(root);
        expect(rootByInclusion(leafOfText('another entry'), index, size, proof)).not.toEqual(root);
        if (size > 1) expect(rootByInclusion(leaf, (index + 1) % size, size, proof)).not.toEqual(root);
        expect(rootByInclusion(leaf, index, size, [...proof, root])).toBeNull();
        if (proof.length > 0) expect(rootByInclusion(leaf, index, size, proof.slice(1))).not.toEqual(root);
      }),
    );
  });

  test('consistency proof: verifies here and elsewhere, and fails for a changed prefix', async () => {
    await fc.assert(
      fc.asyncProperty(SIZES, fc.nat(), fc.nat(), async (size, seed, changedSeed) => {
        const leaves = leavesOf(size);
        const from = 1 + (seed % size);
        const older = headOf(leaves.slice(0, from));
        const newer = headOf(leaves);
        const proof = await readSpans(consistencySpans(from, size), readFrom(leaves));
        expect(isConsistent(older, newer, proof)).toBe(true);
        if (from < size) {
          // It needs the older root in the proof also where the RFC omits it.
          const path = Number.isInteger(Math.log2(from)) ? [older.root, ...proof] : proof;
          expect(
            await THEIRS.verify_consistency_proof(older.root, newer.root, {
              log_id: '',
              tree_size_1: from,
              tree_size_2: size,
              consistency_path: path,
            }),
          ).toBe(true);
        }
        const changed = leaves.with(changedSeed % from, leafOfText('changed'));
        const lies = await readSpans(consistencySpans(from, size), readFrom(changed));
        expect(isConsistent(older, headOf(changed), lies)).toBe(false);
        expect(isConsistent(newer, older, proof)).toBe(from === size);
        if (proof.length > 0) expect(isConsistent(older, newer, proof.slice(0, -1))).toBe(false);
        expect(isConsistent(older, newer, [...proof, nodeHash(older.root, newer.root)])).toBe(false);
      }),
    );
  });
});

describe('signed notes and checkpoints', () => {
  test('signed note: a note of the Go project verifies, and fails with any change', () => {
    const verifier = parseVerifierKey('PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW');
    const signed = `If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
`;
    expect(verifyNote(parseNote(signed), [verifier])).toHaveLength(1);
    expect(formatNote(parseNote(signed))).toBe(signed);
    expect(formatVerifierKey(verifier)).toBe(
      'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    );
    expect(() => verifyNote(parseNote(signed.replace('answer', 'Answer')), [verifier])).toThrow(NoteError);
  });

  test('checkpoint: verifies in another implementation', () => {
    const signer = newSigner('daybook.example/log');
    const { root } = headOf(leavesOf(7));
    const envelope = signCheckpoint({ origin: 'daybook.example/log', size: 7, root }, [signer]);
    const entry = { inclusionProof: { checkpoint: { envelope }, rootHash: root } };
    const log = {
      logID: Buffer.from(signer.keyId, 'hex'),
      publicKey: signer.publicKey,
      baseURL: 'https://daybook.example/log',
    };
    const read = verifyCheckpoint(entry as never, [log] as never);
    expect([read.origin, read.logSize, Buffer.from(read.logHash)]).toEqual(['daybook.example/log', 7n, root]);
    const forged = {
      inclusionProof: { checkpoint: { envelope: envelope.replace('\n7\n', '\n8\n') }, rootHash: root },
    };
    expect(() => verifyCheckpoint(forged as never, [log] as never)).toThrow();
  });

  test('checkpoint: needs a signature of its own log, and has the cosignatures with their times', () => {
    const log = newSigner('log.example');
    const next = newSigner('log.example');
    const witness = newSigner('witness.example', 'cosignature');
    const head = { origin: 'log.example', size: 3, root: headOf(leavesOf(3)).root };
    const signed = signCheckpoint(head, [log, next]);
    const cosigned = formatNote({
      ...parseNote(signed),
      signatures: [...parseNote(signed).signatures, signText(parseNote(signed).text, witness, 1_700_000_000)],
    });
    const { checkpoint, verified } = openCheckpoint(cosigned, [next, witness]);
    expect(checkpoint).toEqual(head);
    expect(verified.map(({ verifier, timeSecs }) => [verifier.name, timeSecs])).toEqual([
      ['log.example', null],
      ['witness.example', 1_700_000_000],
    ]);
    expect(() => openCheckpoint(signed, [newSigner('log.example')])).toThrow(NoteError);
    expect(() => openCheckpoint(cosigned, [witness])).toThrow(NoteError);
    expect(() => openCheckpoint(signCheckpoint(head, [newSigner('other.example')]), [log])).toThrow(
      NoteError,
    );
    const other = newSigner('other.example');
    expect(() => openCheckpoint(signCheckpoint(head, [other]), [other])).toThrow(NoteError);
  });

  test('checkpoint: any changed byte fails verification', () => {
    const log = newSigner('log.example');
    const bytes = Buffer.from(
      signCheckpoint({ origin: 'log.example', size: 1_234, root: EMPTY_ROOT }, [log]),
    );
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] as number) ^ 1;
      expect(() => openCheckpoint(changed.toString('utf8'), [log]), `byte ${at}`).toThrow(NoteError);
    }
  });

  test('notes and keys: any text parses or throws a NoteError', () => {
    const refused = (read: () => unknown): void => {
      try {
        read();
      } catch (error) {
        expect(error).toBeInstanceOf(NoteError);
      }
    };
    const signed = signCheckpoint({ origin: 'log.example', size: 5, root: EMPTY_ROOT }, [
      newSigner('log.example'),
    ]);
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: anyCharacter }),
          fc.string(),
          fc.nat(signed.length).map((at) => signed.slice(at)),
          fc.nat(signed.length).map((at) => signed.slice(0, at)),
        ),
        (text) => {
          refused(() => parseNote(text));
          refused(() => parseCheckpoint(text));
          refused(() => parseVerifierKey(text));
          refused(() => openCheckpoint(text, []));
        },
      ),
    );
  });
});
