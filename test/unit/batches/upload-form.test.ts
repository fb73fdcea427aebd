import { expect, test } from 'vitest';
import { UploadForm } from '#server/batches/upload-form.ts';

/** The upload of a file, read as its bytes pass. */

const part = (name: string, content: string, filename = ''): string =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${filename}\r\n\r\n${content}\r\n`;
const file = (content: string): string => part('file', content, '; filename="in.jsonl"');
const form = (...parts: string[]): string => `${parts.join('')}--b--\r\n`;

/** Reads a form byte by byte. */
function read(text: string): { upload: UploadForm; code: string | null; lineAt: number | null } {
  const upload = new UploadForm('b');
  let lineAt: number | null = null;
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at++) {
    const refusal = upload.push(bytes.subarray(at, at + 1));
    if (refusal) return { upload, code: refusal.code, lineAt };
    if (upload.firstLine !== null) lineAt ??= at + 1;
  }
  return { upload, code: upload.end()?.code ?? null, lineAt };
}

test.each([
  ['before', form(part('purpose', 'batch'), file('\n\n{"a":1}\n{"b":2}\n'))],
  ['behind', form(file('\n\n{"a":1}\n{"b":2}\n'), part('purpose', 'batch'))],
])('the first line is there before the file has ended, with the purpose %s it', (_, text) => {
  const { upload, code, lineAt } = read(text);
  expect([upload.firstLine?.toString(), code]).toEqual(['{"a":1}', null]);
  expect(lineAt).toBe(text.indexOf('{"b"'));
});

test('a file may have one line without an end', () => {
  expect(read(form(file('{"a":1}'), part('purpose', 'batch'))).upload.firstLine?.toString()).toBe('{"a":1}');
});

test.each([
  ['of another purpose', form(part('purpose', 'assistants'), file('x')), 'invalid_value'],
  ['without a purpose', form(file('x')), 'missing_required_parameter'],
  ['without a file', form(part('purpose', 'batch')), 'missing_required_parameter'],
  ['with two files', form(file('x'), file('y'), part('purpose', 'batch')), 'duplicate_parameter'],
  ['that breaks off', part('purpose', 'batch') + file('x'), 'invalid_value'],
  ['of another boundary', '--c\r\n', 'invalid_value'],
])('a form %s is refused', (_, text, code) => {
  expect(read(text).code).toBe(code);
});
