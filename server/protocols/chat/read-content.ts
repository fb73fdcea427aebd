import type { ReportLoss, UserPart } from '#server/protocols/conversation.ts';
import {
  arrayAt,
  recordAt,
  stringAt,
  stringOrNull,
  textOf,
  Untranslatable,
} from '#server/protocols/fields.ts';

/** The content of a message of a chat completion. Pure. */

/** @param content a string, an array of parts, or nothing. */
export function readParts(content: unknown, at: string, report: ReportLoss): UserPart[] {
  if ((content ?? null) === null) return [];
  if (typeof content === 'string') return [textOf(content)];
  return arrayAt(content, at).map((each, index) => {
    const place = `${at}[${index}]`;
    if (typeof each === 'string') return textOf(each);
    const part = recordAt(each, place);
    if (part['cache_control']) report('cache_control');
    return partOf(part, place);
  });
}

function partOf(part: Record<string, unknown>, at: string): UserPart {
  switch (part['type']) {
    case 'text':
      return textOf(stringAt(part, 'text', at));
    case 'refusal':
      return textOf(stringAt(part, 'refusal', at));
    case 'image_url': {
      // Some clients write the address itself where the convention has an object.
      const given = part['image_url'];
      const image = typeof given === 'string' ? { url: given } : recordAt(given, `${at}.image_url`);
      const url = stringAt(image, 'url', `${at}.image_url`);
      return { type: 'image', url, detail: 'detail' in image ? stringOrNull(image.detail) : null };
    }
    case 'input_audio': {
      const audio = recordAt(part['input_audio'], `${at}.input_audio`);
      const [data, format] = [stringAt(audio, 'data', at), stringAt(audio, 'format', at)];
      return { type: 'audio', data, format };
    }
    case 'file': {
      const file = recordAt(part['file'], `${at}.file`);
      if (typeof file['file_data'] !== 'string')
        throw new Untranslatable(`${at}.file`, 'must have its content in "file_data"');
      return { type: 'document', url: file['file_data'], name: stringOrNull(file['filename']) };
    }
    default:
      throw new Untranslatable(`${at}.type`, "isn't supported by this model's provider");
  }
}
