import {
  contentBytes,
  event,
  type Part,
  part,
  pieces,
  type Piece,
  plainText,
  type Subject,
  usageOf,
} from './parts.ts';
import type { Usage } from './ledger.ts';
import type { Script } from './script.ts';

/** Replies of Gemini's own API, whose calls come whole, each in one piece. */

const ERROR = { error: { code: 500, message: 'An internal error has occurred.', status: 'INTERNAL' } };

export function* geminiSse(script: Script, subject: Subject): Generator<Part> {
  let sent = 0;
  for (const { part: said, pieces: of } of saidBy(script)) {
    sent += of.length;
    yield {
      ...event(script, 'token', chunk(subject, [said], null, null), null),
      contentBytes: of.reduce((sum, piece) => sum + contentBytes(script, piece), 0),
    };
  }
  const usage = usageOf(script, subject, sent);
  yield event(
    script,
    'finish',
    chunk(subject, [{ text: '' }], subject.isAtLimit ? 'MAX_TOKENS' : 'STOP', usage),
    usage,
  );
}

export function* geminiJson(script: Script, subject: Subject): Generator<Part> {
  const all = [...saidBy(script)];
  const usage = usageOf(
    script,
    subject,
    all.reduce((sum, { pieces: of }) => sum + of.length, 0),
  );
  const parts =
    script.tools > 0
      ? all.map((each) => each.part)
      : [{ text: all.map(({ pieces: of }) => of.map(plainText).join('')).join('') }];
  for (const { pieces: of } of all)
    for (const piece of of) yield { ...part('token', '', null), contentBytes: contentBytes(script, piece) };
  yield part(
    'done',
    JSON.stringify(chunk(subject, parts, subject.isAtLimit ? 'MAX_TOKENS' : 'STOP', usage)),
    usage,
  );
}

export function geminiError(script: Script, sse: boolean): Part {
  return sse ? event(script, 'error', ERROR, null) : part('error', JSON.stringify(ERROR), null);
}

/** The parts of the reply, with the pieces that each is made of. */
function* saidBy(script: Script): Generator<{ part: object; pieces: Piece[] }> {
  let open: Piece[] = [];
  const call = (): { part: object; pieces: Piece[] } => {
    const args = JSON.parse(open.map(plainText).join('')) as object;
    return { part: { functionCall: { name: `tool_${open[0]?.call ?? 0}`, args } }, pieces: open };
  };
  for (const piece of pieces(script)) {
    if (piece.call === null) {
      yield { part: { text: piece.text }, pieces: [piece] };
      continue;
    }
    if (piece.opensCall && open.length > 0) {
      yield call();
      open = [];
    }
    open.push(piece);
  }
  if (open.length > 0) yield call();
}

function chunk(
  { id, model }: Subject,
  parts: object[],
  finishReason: string | null,
  usage: Usage | null,
): object {
  const counts = usage && {
    promptTokenCount: usage.prompt,
    cachedContentTokenCount: usage.cached,
    candidatesTokenCount: usage.completion - usage.reasoning,
    thoughtsTokenCount: usage.reasoning,
    totalTokenCount: usage.prompt + usage.completion,
  };
  return {
    candidates: [{ content: { parts, role: 'model' }, ...(finishReason ? { finishReason } : {}), index: 0 }],
    ...(counts ? { usageMetadata: counts } : {}),
    modelVersion: model,
    responseId: id,
  };
}
