import type { Conversation } from '#server/protocols/conversation.ts';

/**
 * Signatures of reasoning on their way through a client of another protocol, and back. A provider rejects
 * those of another one, so that they say which protocol they came in. The marks are base64, as the
 * signatures are: some SDKs decode them. Pure.
 */

/** Before the signatures of each upstream protocol. The rest comes from Anthropic, or from a gateway. */
export const SIGNATURE_MARKS = { chat: '', messages: '', responses: 'RSP0', gemini: 'GEM0' } as const;

/** Before reasoning that its provider shows to no one, where a protocol has only signatures. */
export const REDACTED_SIGNATURE = 'REDACTED';

const MARKS = [SIGNATURE_MARKS.responses, SIGNATURE_MARKS.gemini];

/**
 * The conversation with the signatures of one protocol, as its provider made them.
 * @param report called where those of another were removed.
 */
export function withOwnSignatures(
  conversation: Conversation,
  mark: string,
  report: (field: string) => void,
): Conversation {
  const own = (signature: string): string | null => {
    const of = MARKS.find((each) => signature.startsWith(each)) ?? '';
    if (of === mark) return signature.slice(mark.length);
    report('reasoning.signature');
    return null;
  };
  const turns = conversation.turns.map((turn): Conversation['turns'][number] => {
    if (turn.role !== 'assistant') return turn;
    const parts = turn.parts.map((part) =>
      part.type === 'reasoning' && part.signature !== null
        ? { ...part, signature: own(part.signature) }
        : part,
    );
    return { ...turn, parts };
  });
  return { ...conversation, turns };
}
