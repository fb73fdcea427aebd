import { objectOf } from '#server/wire/raw-json.ts';
import { UnsupportedField } from '#server/providers/anthropic/unsupported-field.ts';

/** The parts of a message's content as Anthropic's blocks, each as JSON. Nothing is ever fetched. Pure. */

/** The beginning of a data URL; only base64 is accepted. */
const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+=-]+)*;base64,/i;
/** Longer than any beginning of one: what follows is megabytes, and not looked at. */
const DATA_URL_HEAD_CHARACTERS = 300;
const WEB_URL = /^https?:\/\//i;

/** Members that have no place in a block, by their names in the convention. */
export type ReportUnsupported = (member: string) => void;

type Part = Record<string, unknown>;

/**
 * @param content a string, an array of parts, or nothing.
 * @param at the field it stands in, for a refusal.
 * @throws {UnsupportedField} for a part that Anthropic doesn't support.
 */
export function blocksOf(content: unknown, at: string, note: ReportUnsupported): string[] {
  if (content === undefined || content === null) return [];
  if (typeof content === 'string') return textBlock(content, null);
  if (!Array.isArray(content)) throw new UnsupportedField(at, 'must be a string or an array of parts');
  return content.flatMap((part: unknown, index) => {
    const place = `${at}[${index}]`;
    if (typeof part === 'string') return textBlock(part, null);
    if (!isRecord(part)) throw new UnsupportedField(place, 'must be an object');
    return blockOf(part, place, note);
  });
}

/** A block of text; none where there is nothing but blanks, which Anthropic refuses. */
export function textBlock(text: string, cacheControl: string | null): string[] {
  if (text.trim() === '') return [];
  return [objectOf({ type: '"text"', text: JSON.stringify(text), cache_control: cacheControl })];
}

/** Where a client asks for a cache: Anthropic's own member, which clients set in the convention too. */
export function cacheControlOf(part: Part): string | null {
  return isRecord(part['cache_control']) ? JSON.stringify(part['cache_control']) : null;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function blockOf(part: Part, at: string, note: ReportUnsupported): string[] {
  switch (part['type']) {
    case 'text':
      return textBlock(stringAt(part, 'text', at), cacheControlOf(part));
    case 'refusal':
      return textBlock(stringAt(part, 'refusal', at), cacheControlOf(part));
    case 'image_url':
      return [imageBlock(part, at, note)];
    case 'file':
      return [documentBlock(part, at)];
    case 'input_audio':
      throw new UnsupportedField(
        `${at}.input_audio`,
        "holds a recording, and this model's provider takes none",
      );
    default:
      throw new UnsupportedField(
        `${at}.type`,
        "isn't supported by this model's provider; use text, image_url or file",
      );
  }
}

function imageBlock(part: Part, at: string, note: ReportUnsupported): string {
  // Some clients write the address itself where the convention has an object.
  const image = typeof part['image_url'] === 'string' ? { url: part['image_url'] } : part['image_url'];
  if (!isRecord(image)) throw new UnsupportedField(`${at}.image_url`, 'must be an object');
  if (image['detail'] !== undefined && image['detail'] !== 'auto') note('messages.content.image_url.detail');
  const source = sourceOf(stringAt(image, 'url', `${at}.image_url`), `${at}.image_url.url`);
  return objectOf({ type: '"image"', source, cache_control: cacheControlOf(part) });
}

function documentBlock(part: Part, at: string): string {
  const file = part['file'];
  if (!isRecord(file)) throw new UnsupportedField(`${at}.file`, 'must be an object');
  if (file['file_data'] === undefined) {
    throw new UnsupportedField(
      `${at}.file.${file['file_id'] === undefined ? 'file_data' : 'file_id'}`,
      'can\'t be used with this model\'s provider; put the file itself into "file_data"',
    );
  }
  const source = sourceOf(stringAt(file, 'file_data', `${at}.file`), `${at}.file.file_data`);
  const title = typeof file['filename'] === 'string' ? JSON.stringify(file['filename']) : null;
  return objectOf({ type: '"document"', source, title, cache_control: cacheControlOf(part) });
}

/** A web address is passed on, for the provider to fetch; a data URL becomes its content. */
function sourceOf(url: string, at: string): string {
  if (WEB_URL.test(url)) return objectOf({ type: '"url"', url: JSON.stringify(url) });
  const match = DATA_URL.exec(url.slice(0, DATA_URL_HEAD_CHARACTERS));
  if (!match) throw new UnsupportedField(at, 'must be an https address or a data URL in base64');
  const [head, type] = match as unknown as [string, string];
  if (type.toLowerCase() === 'text/plain') {
    const text = Buffer.from(url.slice(head.length), 'base64').toString();
    return objectOf({ type: '"text"', media_type: '"text/plain"', data: JSON.stringify(text) });
  }
  const mediaType = /^image\/jpg$/i.test(type) ? 'image/jpeg' : type.toLowerCase();
  // The whole address is made JSON and then cut: its beginning has nothing to escape, and to make a slice of
  // megabytes JSON takes twice as long.
  return objectOf({
    type: '"base64"',
    media_type: JSON.stringify(mediaType),
    data: `"${JSON.stringify(url).slice(1 + head.length)}`,
  });
}

function stringAt(record: Part, name: string, at: string): string {
  const value = record[name];
  if (typeof value !== 'string') throw new UnsupportedField(`${at}.${name}`, 'must be a string');
  return value;
}
