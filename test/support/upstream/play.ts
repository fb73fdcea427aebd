import { headBytes } from './heads.ts';
import type { Attempt, Ended, Ledger } from './ledger.ts';
import { ClientGone, type Output } from './output.ts';
import { commentText, type Part, type Subject } from './parts.ts';
import { composeReply, type Reply, type Write } from './reply.ts';
import type { Script } from './script.ts';
import { seededRandom, splitBytes } from './split.ts';

/** Filler is sent in slices of this size, with backpressure after each. */
const FILLER = Buffer.alloc(64 * 1024, 'f');
const COMMENT_EVERY_MS = 10;
const NOT_HTTP = Buffer.from('\u0016\u0003\u0001 this is not a reply\r\n\r\n', 'latin1');

type Play = { script: Script; attempt: Attempt; out: Output; ledger: Ledger };

/**
 * Plays one script to one attempt: pause, head, pause, the body up to where the script ends, the
 * ending. Whatever happens, the ledger's row is closed afterwards.
 * Returns whether the connection may carry another request; if not, it is to be closed.
 */
export async function playScript(play: Play, subject: Subject, credential: string | null): Promise<boolean> {
  const { script, attempt, out } = play;
  try {
    await out.pause(script.head);
    if (script.end.where === 'head') return await endTorn(play, null);
    if (script.garbage === 'http') {
      await out.raw(NOT_HTTP);
      return close(play, 'garbage');
    }
    const reply = composeReply(script, attempt, subject, credential);
    attempt.status = reply.status;
    await out.head(headBytes(reply.status, reply.headers), reply.framing === 'chunked' ? 'chunked' : 'plain');
    play.ledger.changed();
    await out.pause(script.first);
    await sendWrites(play, reply);
    const proper = script.end.how === 'stop' || script.end.how === 'error';
    return await (proper ? endProperly(play, reply) : endTorn(play, reply));
  } catch (error) {
    if (!(error instanceof ClientGone)) throw error;
    attempt.clientClosedEarly = attempt.endedAt === null;
    return close(play, 'client_closed');
  }
}

async function sendWrites(play: Play, reply: Reply): Promise<void> {
  const { script, attempt, out, ledger } = play;
  const random = seededRandom(script.seed);
  let wasToken = false;
  for (const write of reply.writes) {
    const isToken = write.parts.some((part) => part.kind === 'token');
    await out.pause(isToken && wasToken ? script.every : 0);
    wasToken ||= isToken;
    await sendWrite(play, write, random);
    // What lies past a Content-Length that is too short is no part of the reply any more.
    if (attempt.replyBytesSent <= reply.declaredBytes) for (const part of write.parts) record(attempt, part);
    ledger.changed();
  }
}

async function sendWrite({ script, attempt, out }: Play, write: Write, random: () => number): Promise<void> {
  const split = script.drip > 0 && script.split === 'none' ? 1 : script.split;
  for (const bytes of slices(write)) {
    for (const piece of splitBytes(bytes, split, random)) {
      // Nothing comes between the last piece and the ledger's row: who leaves then has been sent it.
      if (split !== 'none' && attempt.replyBytesSent > 0) await out.pause(script.drip);
      await out.body(piece);
    }
  }
}

function* slices(write: Write): Generator<Buffer> {
  yield write.head;
  for (let left = write.fillBytes; left > 0; left -= FILLER.length) yield FILLER.subarray(0, left);
  yield write.tail;
}

function record(attempt: Attempt, part: Part): void {
  attempt.contentBytesSent += part.contentBytes;
  if (part.kind === 'token') attempt.tokensSent += 1;
  if (part.kind === (attempt.sse ? 'finish' : 'done')) attempt.finishSent = true;
  if (part.kind === 'done') attempt.doneSent = true;
  if (part.usage) {
    attempt.usageReported = part.usage;
    attempt.usageAt = Date.now();
    attempt.usageIsFinal = part.kind === 'finish' || part.kind === 'usage';
  }
}

/** The ending of a body that ends as its framing says, or would if Content-Length were right. */
async function endProperly(play: Play, reply: Reply): Promise<boolean> {
  const { script, attempt, out } = play;
  await out.endBody();
  if (reply.status === 101) {
    close(play, 'refused');
    return out.hang();
  }
  const tooShort = reply.framing === 'length' && attempt.replyBytesSent < reply.declaredBytes;
  close(play, tooShort ? 'cut' : properEnding(play, reply));
  return !tooShort && reply.framing !== 'close' && script.connection === 'keep';
}

/** The ending of a reply that is torn off; `reply` is null when not even its head was sent. */
async function endTorn(play: Play, reply: Reply | null): Promise<boolean> {
  const { script, attempt, out, ledger } = play;
  if (reply?.framing === 'length' && attempt.replyBytesSent >= reply.declaredBytes) {
    // After the last byte that Content-Length has announced nothing is left to be torn off.
    close(play, wholeOrStopped(attempt));
    return script.end.how === 'hang';
  }
  if (script.end.how === 'cut')
    return close(play, reply?.framing === 'close' ? wholeOrStopped(attempt) : 'cut');
  if (script.end.how === 'reset') {
    close(play, 'reset');
    await out.reset();
    return false;
  }
  attempt.ended = 'hung';
  ledger.changed();
  return script.end.how === 'comments' ? sendComments(play) : out.hang();
}

async function sendComments({ script, attempt, out }: Play): Promise<never> {
  const comment = commentText(script, attempt.sse);
  for (;;) {
    await out.body(comment);
    await out.pause(script.every || COMMENT_EVERY_MS);
  }
}

function properEnding({ script, attempt }: Play, reply: Reply): Ended {
  if (reply.status >= 300) return 'refused';
  if (script.garbage === 'body') return 'garbage';
  return script.end.how === 'error' ? 'error_event' : wholeOrStopped(attempt);
}

function wholeOrStopped(attempt: Attempt): Ended {
  return attempt.finishSent ? 'complete' : 'stopped';
}

function close({ attempt, ledger }: Play, ended: Ended): false {
  if (attempt.ended === 'open') attempt.ended = ended;
  attempt.endedAt = Date.now();
  ledger.changed();
  return false;
}
