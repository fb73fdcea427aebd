import { SLAB_FROM_BYTES } from '#server/wire/bounds.ts';
import { encodedForms, escapedPattern } from '#server/wire/encoded-forms.ts';

/** Removes an upstream's credentials, and its address from errors, from everything that leaves. Pure. */

/** A shorter text is not a secret: removing it from errors would only make them unreadable. */
const SECRET_CHARACTERS_MIN = 6;
/**
 * A reply's own text loses longer secrets only: self-hosted servers take words such as "ollama" as
 * credentials, and a reply may contain them.
 */
const REPLY_SECRET_CHARACTERS_MIN = 16;
/** So much of the beginning of a secret is removed from errors, whose texts may be truncated. */
const BEGINNING_CHARACTERS = 24;
/** A run of letters and digits that is the same in every encoding but those that escape each character. */
const PLAIN_RUN = /[A-Za-z0-9]{4,12}/g;

/** Keys as vendors write them, masked ones included, and the addresses of other machines. */
const VENDOR_KEYS = new RegExp(
  [
    /\b(?:sk|pk|rk|dbk|gsk|csk|key|xai|nvapi|pplx|hf|r8|fw|tgp)[-_][\w*.-]{8,}/,
    /\bAIza[\w-]{20,}|\bAKIA[A-Z0-9]{12,}|\bya29\.[\w.-]{20,}/,
    /\b(?:Bearer|Basic)\s+[^\s"']+/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'gi',
);
const ADDRESSES = /https?:\/\/[^\s"')]+|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w.])/gi;

/** @param rest what follows the beginning. */
type Needle = { isForReplies: boolean; rest: string };

export class Redactor {
  readonly #needles: readonly Needle[];
  /** The beginning of each needle, in a group of its own; null: there are no secrets. */
  readonly #beginnings: RegExp | null;
  /**
   * Texts of which each secret in a reply contains one, unless its characters are escaped; null: there is a
   * secret without any.
   */
  readonly #anchors: readonly string[] | null;
  readonly #hosts: RegExp | null;
  /** The longest that an encoded secret may be. */
  readonly longest: number;

  /**
   * @param secrets the credentials of one upstream; one that is a JSON object holds several values.
   * @param hosts the names and addresses of its endpoint, without ports.
   */
  constructor(secrets: readonly string[] = [], hosts: readonly string[] = []) {
    const texts = [...new Set(secrets.flatMap(secretTexts))];
    const forms = texts.flatMap((text) => encodedForms(text).map((form) => ({ text, form })));
    this.#needles = forms.map(({ text, form }) => ({
      isForReplies: text.length >= REPLY_SECRET_CHARACTERS_MIN && !/^https?:/.test(text),
      rest: form.slice(BEGINNING_CHARACTERS),
    }));
    const beginnings = forms.map(({ form }) => `(${escapedPattern(form.slice(0, BEGINNING_CHARACTERS))})`);
    this.#beginnings = beginnings.length === 0 ? null : new RegExp(beginnings.join('|'), 'g');
    const anchors = forms
      .filter((_, index) => this.#needles[index]?.isForReplies)
      .map(({ form }) => anchorOf(form.slice(0, BEGINNING_CHARACTERS)));
    this.#anchors = anchors.includes(null) ? null : (anchors as string[]);
    const hostPatterns = hosts.filter((host) => host !== '').map(hostPattern);
    this.#hosts = hostPatterns.length === 0 ? null : new RegExp(hostPatterns.join('|'), 'gi');
    this.longest = Math.max(0, ...forms.map(({ form }) => form.length)) * LONGEST_ESCAPE;
  }

  /** Whether the text may contain a secret: a cheap search that most texts fail. */
  isSuspect(text: string | Buffer): boolean {
    if (this.#anchors === null) return true;
    if (this.#anchors.length === 0) return false;
    for (const anchor of this.#anchors) if (text.includes(anchor)) return true;
    return text.includes('\\u00') || text.includes('%');
  }

  /** A text of a reply without the secrets. */
  text(text: string): string {
    return this.isSuspect(text) ? this.#withoutSecrets(text, false) : text;
  }

  /** An error's text without the secrets, other keys, and addresses. */
  errorText(text: string): string {
    const bare = this.#withoutSecrets(text, true).replace(VENDOR_KEYS, CREDENTIAL);
    const withoutHosts = this.#hosts ? bare.replace(this.#hosts, ADDRESS) : bare;
    return withoutHosts.replace(ADDRESSES, ADDRESS);
  }

  /**
   * A complete JSON reply. The bytes are the same where nothing was removed.
   * @param latin1 the bytes as such a text, where the caller has it.
   */
  json(bytes: Buffer, isError: boolean, latin1: string | null = null): Buffer {
    if (!isError && !this.#isSuspectJson(bytes, latin1)) return bytes;
    const text = bytes.toString();
    const redacted = this.#document(text, isError);
    return redacted === text ? bytes : Buffer.from(redacted);
  }

  #isSuspectJson(bytes: Buffer, latin1: string | null): boolean {
    if (this.#anchors?.length === 0) return false;
    if (latin1 !== null) return this.isSuspect(latin1);
    // A text is searched faster; a copy of a large reply as one would be garbage of its size.
    return this.isSuspect(bytes.length > SLAB_FROM_BYTES ? bytes : bytes.toString('latin1'));
  }

  /** One event of a streamed reply, blank line included. @param event as latin-1 text of its bytes. */
  event(event: string, isError: boolean): string {
    if (!isError && !this.isSuspect(event)) return event;
    const text = Buffer.from(event, 'latin1').toString();
    const lines = text.split(/(\r\n|\n|\r)/);
    const data = lines.map((line) => /^data: ?/.exec(line)?.[0] ?? null);
    // The data of one line is a document of its own; that of several is joined by line ends.
    const isSingle = data.filter((prefix) => prefix !== null).length === 1;
    const redacted = lines
      .map((line, index) => {
        const prefix = data[index] ?? null;
        if (prefix === null || !isSingle) return this.#raw(line, isError);
        return prefix + this.#document(line.slice(prefix.length), isError);
      })
      .join('');
    return redacted === text ? event : Buffer.from(redacted).toString('latin1');
  }

  /** JSON stays valid: its strings are redacted one by one. */
  #document(text: string, isError: boolean): string {
    const raw = this.#raw(text, isError);
    if (raw === text && !(isError && text.includes('\\'))) return text;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return raw;
    }
    let isChanged = false;
    const redact = (part: string): string => {
      const redacted = this.#raw(part, isError);
      isChanged ||= redacted !== part;
      return redacted;
    };
    const redacted = JSON.stringify(mapStrings(value, redact));
    return isChanged ? redacted : raw;
  }

  #raw(text: string, isError: boolean): string {
    return isError ? this.errorText(text) : this.text(text);
  }

  /** @param isError whether the beginning of a secret is enough. */
  #withoutSecrets(text: string, isError: boolean): string {
    const beginnings = this.#beginnings;
    if (beginnings === null) return text;
    let kept = '';
    let keptTo = 0;
    beginnings.lastIndex = 0;
    for (let match = beginnings.exec(text); match; match = beginnings.exec(text)) {
      const needle = this.#needles[match.findIndex((group, index) => index > 0 && group !== undefined) - 1];
      const { isForReplies, rest } = needle as Needle;
      const { end, isWhole } = extend(text, beginnings.lastIndex, rest);
      if (isError || (isForReplies && isWhole)) {
        kept += text.slice(keptTo, match.index) + CREDENTIAL;
        keptTo = end;
        beginnings.lastIndex = end;
      } else beginnings.lastIndex = match.index + 1;
    }
    return keptTo === 0 ? text : kept + text.slice(keptTo);
  }
}

const CREDENTIAL = '[credential]';
const ADDRESS = '[address]';
/** `\u0041` in a document in a document. */
const LONGEST_ESCAPE = 8;

/** The texts of a credential: itself, and the values of a JSON object, as clouds need them. */
function secretTexts(secret: string): string[] {
  const texts: string[] = [secret];
  const gather = (value: unknown): void => {
    if (typeof value === 'string') texts.push(value);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(gather);
  };
  if (secret.startsWith('{')) {
    try {
      gather(JSON.parse(secret));
    } catch {
      // A credential that only looks like JSON is a text like any other.
    }
  }
  return texts.filter((text) => text.length >= SECRET_CHARACTERS_MIN);
}

function anchorOf(beginning: string): string | null {
  const runs = beginning.match(PLAIN_RUN) ?? [];
  return runs.toSorted((left, right) => right.length - left.length)[0] ?? null;
}

/** A host by itself, not as a part of another name; behind `://` in a URL that is percent-encoded, too. */
function hostPattern(host: string): string {
  const [plain = '', ...encoded] = encodedForms(host);
  const alone = `(?<![\\w-])${escapedPattern(plain)}(?:(?::|%3a)\\d{1,5})?(?![\\w-])`;
  const inUrl = `(?<=%(?:25){0,3}2f)${escapedPattern(plain)}(?:%(?:25){0,3}3a\\d{1,5})?`;
  return [alone, inUrl, ...(host.length < SECRET_CHARACTERS_MIN ? [] : encoded.map(escapedPattern))].join(
    '|',
  );
}

const characterPatterns = new Map<string, RegExp>();

function extend(text: string, from: number, rest: string): { end: number; isWhole: boolean } {
  let end = from;
  for (const character of rest) {
    let pattern = characterPatterns.get(character);
    if (!pattern) characterPatterns.set(character, (pattern = new RegExp(escapedPattern(character), 'y')));
    pattern.lastIndex = end;
    if (!pattern.test(text)) return { end, isWhole: false };
    end = pattern.lastIndex;
  }
  return { end, isWhole: true };
}

function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((each) => mapStrings(each, map));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [map(name), mapStrings(each, map)]));
}

/** For replies of an upstream without credentials. */
export const NOTHING_TO_REDACT = new Redactor();
