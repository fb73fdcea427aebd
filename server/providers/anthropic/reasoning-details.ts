import { isRecord } from '#server/providers/anthropic/content.ts';
import { objectOf } from '#server/wire/raw-json.ts';

/**
 * What the model thought, on its way to a client and back. The text is for people and goes out as
 * `reasoning_content`. Anthropic wants its blocks back as they were, signature and all, when the
 * results of tools follow them; so they go out a second time as `reasoning_details`, in the shape that
 * OpenRouter made common, whole in a JSON reply and in fragments of the same index in a streamed one.
 * A client that returns them as received, joined or not, lets the model continue its reasoning. Pure.
 */

/** Identifies the provider of the signatures. */
const THOUGHT_FORMAT = '"anthropic-claude-v1"';

/** A detail for a thinking block, or for a fragment of one; every part is JSON. */
export function thinkingDetail(
  index: number,
  text: string | undefined,
  signature: string | undefined,
): string {
  const parts =
    (text === undefined ? '' : `"text":${text},`) +
    (signature === undefined ? '' : `"signature":${signature},`);
  return `{"type":"reasoning.text",${parts}"format":${THOUGHT_FORMAT},"index":${index}}`;
}

/** A thought that the provider has locked away, even from its reader. */
export function redactedDetail(index: number, data: string): string {
  return `{"type":"reasoning.encrypted","data":${data},"format":${THOUGHT_FORMAT},"index":${index}}`;
}

/**
 * The thinking blocks that a client returns in an assistant message. A block without a signature is omitted:
 * it came from another provider, and Anthropic would reject it.
 */
export function thinkingBlocks(message: Record<string, unknown>): string[] {
  const details = message['reasoning_details'];
  if (!Array.isArray(details)) return [];
  const blocks: string[] = [];
  let open: { index: unknown; text: string; signature: string } | null = null;
  const close = (): void => {
    if (open && open.signature !== '') {
      blocks.push(
        objectOf({
          type: '"thinking"',
          thinking: JSON.stringify(open.text),
          signature: JSON.stringify(open.signature),
        }),
      );
    }
    open = null;
  };
  for (const detail of details as unknown[]) {
    if (!isRecord(detail)) continue;
    const { type, text, signature, data, index } = detail;
    if (type === 'reasoning.encrypted' && typeof data === 'string') {
      close();
      blocks.push(objectOf({ type: '"redacted_thinking"', data: JSON.stringify(data) }));
    }
    if (type !== 'reasoning.text') continue;
    // Fragments of one block have its index; two whole blocks without any are separated by the first one's
    // signature.
    if (open && (open.index !== index || open.signature !== '')) close();
    open ??= { index, text: '', signature: '' };
    if (typeof text === 'string') open.text += text;
    if (typeof signature === 'string') open.signature = signature;
  }
  close();
  return blocks;
}
