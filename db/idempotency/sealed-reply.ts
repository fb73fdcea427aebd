import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import type { AccountKey } from '#db/attribution/keys.ts';
import { seal, unsealBytes } from '#db/secrets/seal.ts';

/**
 * Kept replies: compressed, and sealed under the account's key of attribution, which is itself sealed under
 * the master key outside the database. Destroying that key makes them unreadable, and rotating the master key
 * leaves them alone.
 */

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

const REPLY = 'daybook idempotent reply';

/** A reply as a client received it. */
export type KeptReply = {
  status: number;
  contentType: string;
  /** Further headers of the reply itself, in pairs. */
  headers: readonly string[];
  body: Buffer;
};

type Owner = Pick<AccountKey, 'account' | 'generation' | 'key'>;

/** Seals a reply: it opens for its own request only. */
export async function sealReply(owner: Owner, request: string, reply: KeptReply): Promise<Buffer> {
  const { body, ...head } = reply;
  const plain = Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body]);
  return seal(owner.key, REPLY, boundTo(owner, request), await compress(plain));
}

/**
 * @param bytesMax of the opened reply.
 * @throws {Error} if it was sealed under another key or for another request, was modified, or is longer.
 */
export async function openReply(
  owner: Owner,
  request: string,
  sealed: Buffer,
  bytesMax: number,
): Promise<KeptReply> {
  const packed = unsealBytes(owner.key, REPLY, boundTo(owner, request), sealed);
  const plain = await decompress(packed, { maxOutputLength: bytesMax });
  const end = plain.indexOf('\n');
  const head = JSON.parse(plain.toString('utf8', 0, end)) as Omit<KeptReply, 'body'>;
  return { ...head, body: plain.subarray(end + 1) };
}

const boundTo = ({ account, generation }: Owner, request: string): string =>
  `daybook.idempotent_reply/${account}/${generation}/${request}`;
