import type { Usage } from '#db/money.ts';
import { BYTES_PER_TOKEN, SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { parseUsage } from '#server/providers/openai/usage.ts';
import { dataOf, eventEnds } from '#server/wire/sse.ts';

/**
 * Reads a streamed chat completion as it passes. The bytes are relayed unchanged, but
 * in whole events: bytes after the last event's end are held until the event is complete. So
 * the relay can add an error of its own after a cut without gluing it to half an event, and can
 * leave out a usage chunk that the client did not ask for.
 *
 * Each event is looked at once, as latin-1 text, with a few string searches; only events that
 * carry usage or an error are parsed. Pure: no I/O, no clock.
 */

/** How a searched member's value begins, whatever blanks the provider writes around the colon. */
const BLANKS_AND_COLON = /[\s:]*/y;

/** The members of a delta that carry what the model has written. */
const TEXT_MEMBERS = [
  '"content"',
  '"reasoning_content"',
  '"reasoning"',
  '"arguments"',
  '"refusal"',
  '"text"',
];

const DONE = /(^|[\r\n])data: ?\[DONE\]/;

/** A delta longer than this on average holds several tokens; 4 bytes a token is the usual measure. */
const ONE_TOKEN_BYTES_MAX = 16;

export class ChatSse {
  readonly #stripUsage: boolean;
  #held: Buffer | null = null;
  #insideEvent = false;
  #deltas = 0;
  #textBytes = 0;
  #usage: Usage | null = null;
  #finished = false;
  #done = false;
  #failed = false;
  #dataEvents = 0;

  /** @param stripUsage whether a chunk that only carries usage is removed: only the relay requested it. */
  constructor(stripUsage: boolean) {
    this.#stripUsage = stripUsage;
  }

  /** Takes the next bytes; returns those that go on to the client now, which may be none. */
  push(chunk: Buffer): Buffer | null {
    const bytes = this.#held ? Buffer.concat([this.#held, chunk]) : chunk;
    this.#held = null;
    const text = bytes.toString('latin1');
    const ends = eventEnds(text);
    const last = ends.at(-1) ?? 0;
    const isOversize = bytes.length - last > SSE_EVENT_BYTES_MAX;
    if (last < bytes.length && !isOversize) this.#held = last === 0 ? bytes : bytes.subarray(last);
    if (last > 0) this.#insideEvent = false;
    const whole = last === 0 ? null : this.#takeEvents(bytes, text, ends, last);
    if (!isOversize) return whole;
    const piece = this.#passPiece(bytes.subarray(last));
    return whole ? Buffer.concat([whole, piece]) : piece;
  }

  /**
   * The rest, when the upstream has ended by itself. Some providers omit the blank line after the
   * last event. Half an event counts for nothing, and goes out only behind a complete reply.
   */
  flush(): Buffer | null {
    const rest = this.#held;
    this.#held = null;
    if (!rest) return null;
    const text = rest.toString('latin1');
    if (parseData(rest.toString()) === null && !DONE.test(text)) return this.complete ? rest : null;
    const event = this.#takeEvents(rest, text, [rest.length], rest.length);
    this.#insideEvent = event !== null;
    return event;
  }

  /** What the provider reported; null when it has not (yet). */
  get usage(): Usage | null {
    return this.#usage;
  }

  /** A chat completion reports the usage of the prompt only with the rest. */
  readonly promptUsage = null;

  /** Tokens of the reply that went through here, counted. */
  get countedTokens(): number {
    const chunky = this.#textBytes > this.#deltas * ONE_TOKEN_BYTES_MAX;
    return chunky ? Math.max(this.#deltas, Math.ceil(this.#textBytes / BYTES_PER_TOKEN)) : this.#deltas;
  }

  /**
   * Whether the reply is complete by its own words: a finish reason that is no error, or `[DONE]` without
   * one.
   */
  get complete(): boolean {
    return this.#finished || this.#done;
  }

  /** Whether the upstream has reported an error within the stream. */
  get failed(): boolean {
    return this.#failed;
  }

  /** How many events with data have gone through: progress, as comments are not. */
  get dataEvents(): number {
    return this.#dataEvents;
  }

  /** Whether the client has been sent a part of an event whose end has not come. */
  get insideEvent(): boolean {
    return this.#insideEvent;
  }

  #passPiece(bytes: Buffer): Buffer {
    this.#insideEvent = true;
    this.#dataEvents++;
    return bytes;
  }

  #takeEvents(bytes: Buffer, text: string, ends: readonly number[], last: number): Buffer | null {
    const kept: Buffer[] = [];
    let keptFrom = 0;
    let start = 0;
    for (const end of ends) {
      // Each event is searched on its own: a search to the end of the chunk for each of its events
      // would make large chunks of small events quadratic.
      if (this.#look(text.slice(start, end), bytes, start)) {
        if (start > keptFrom) kept.push(bytes.subarray(keptFrom, start));
        keptFrom = end;
      }
      start = end;
    }
    if (keptFrom === 0) return last === bytes.length ? bytes : bytes.subarray(0, last);
    if (last > keptFrom) kept.push(bytes.subarray(keptFrom, last));
    return kept.length === 0 ? null : Buffer.concat(kept);
  }

  /** Inspects one event; returns whether it is to be removed. */
  #look(event: string, bytes: Buffer, start: number): boolean {
    if (!event.startsWith('data') && !event.includes('\ndata') && !event.includes('\rdata')) return false;
    this.#dataEvents++;
    this.#countText(event);
    if (!this.#finished) this.#finished = hasFinishReason(event);
    // `[DONE]` must be the data itself: inside a string of a reply it means nothing. Some send it behind an
    // error, too.
    if (event.length < 64 && !this.#failed && DONE.test(event)) this.#done = true;
    const hasUsage = hasUsageObject(event);
    if (!hasUsage && !event.includes('"error"')) return false;
    const data = parseData(bytes.toString('utf8', start, start + event.length));
    if (!data) return false;
    const groq = asRecord(data['x_groq']);
    if (
      hasError(data['error']) ||
      hasError(groq?.['error']) ||
      data['object'] === 'error' ||
      endsInError(data['choices'])
    )
      this.#failed = true;
    this.#usage = parseUsage(data['usage']) ?? parseUsage(groq?.['usage']) ?? this.#usage;
    return hasUsage && this.#stripUsage && Array.isArray(data['choices']) && data['choices'].length === 0;
  }

  #countText(event: string): void {
    for (const member of TEXT_MEMBERS) {
      for (let at = event.indexOf(member); at >= 0; at = event.indexOf(member, at + member.length)) {
        const quote = valueAt(event, at + member.length);
        // As a value, such as the type of a part, the name precedes the member itself.
        if (event[quote] !== '"') continue;
        if (event[quote + 1] === '"') break;
        this.#deltas++;
        this.#textBytes += stringEnd(event, quote + 1) - quote - 1;
        return;
      }
    }
  }
}

/** The offset of a member's value, given the offset just after its name. */
function valueAt(text: string, at: number): number {
  BLANKS_AND_COLON.lastIndex = at;
  BLANKS_AND_COLON.test(text);
  return BLANKS_AND_COLON.lastIndex;
}

/** Whether it gives a reason why the reply has ended, and not that it broke off. */
function hasFinishReason(event: string): boolean {
  const at = event.indexOf('"finish_reason"');
  if (at < 0) return false;
  const value = valueAt(event, at + '"finish_reason"'.length);
  return event[value] === '"' && !event.startsWith('"error"', value);
}

/** Whether it holds a usage object, at any depth: the usual member may be null, and another one be set. */
function hasUsageObject(event: string): boolean {
  for (let at = event.indexOf('"usage"'); at >= 0; at = event.indexOf('"usage"', at + 1)) {
    if (event[valueAt(event, at + '"usage"'.length)] === '{') return true;
  }
  return false;
}

/** An error as an object, or by its text alone. */
function hasError(error: unknown): boolean {
  return typeof error === 'string' ? error !== '' : typeof error === 'object' && error !== null;
}

function endsInError(choices: unknown): boolean {
  return Array.isArray(choices) && choices.some((choice) => asRecord(choice)?.['finish_reason'] === 'error');
}

function asRecord(value: unknown): Record<string, unknown> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

/** Where the string that begins at `from` ends, at its closing quote or with the text. */
function stringEnd(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text[at - 1 - backslashes] === '\\') backslashes++;
    if (backslashes % 2 === 0) return at;
  }
  return text.length;
}

/** The JSON object that an event's data lines hold, if they do. */
function parseData(event: string): Record<string, unknown> | null {
  try {
    return asRecord(JSON.parse(dataOf(event) ?? ''));
  } catch {
    return null;
  }
}
