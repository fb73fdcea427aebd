import { describe, expect, test } from 'vitest';
import { type Unit, UNITS } from '#db/pricing/parts.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { MEDIA_MS_MAX, TOOL_CALLS_TYPICAL } from '#server/limits/bounds.ts';
import { unitsOf } from '#server/limits/call-units.ts';
import { scanRequest } from '#server/wire/request-parser.ts';

/** The units that requests can cause, which are reserved where they have a price. */

function unitsIn(request: object, model = 'm', choices = 1, priced: readonly Unit[] = TOOL_UNITS): object {
  const body = Buffer.from(JSON.stringify(request));
  const scanned = scanRequest(body, []);
  if (scanned instanceof ApiError) throw scanned;
  return unitsOf(body, { model, choices, scanned }, priced);
}
const TOOL_UNITS: readonly Unit[] = ['web_search', 'image', 'tool_call'];

describe('tools of the provider', () => {
  test.each<[string, object, object]>([
    ['max_uses', { tools: [{ type: 'web_search_20250305', max_uses: 3 }] }, { web_search: 3 }],
    ['max_tool_calls', { tools: [{ type: 'web_search' }], max_tool_calls: 2 }, { web_search: 2 }],
    ['nothing', { tools: [{ type: 'web_search_preview' }] }, { web_search: TOOL_CALLS_TYPICAL }],
    ['a bound of 0', { tools: [{ type: 'x_search', max_uses: 0 }] }, { web_search: TOOL_CALLS_TYPICAL }],
    ['max_search_results', { search_parameters: { max_search_results: 7 } }, { web_search: 7 }],
    ['nothing, as an option', { web_search_options: {} }, { web_search: TOOL_CALLS_TYPICAL }],
    ['nothing, as a plugin', { plugins: [{ id: 'web' }] }, { web_search: TOOL_CALLS_TYPICAL }],
    ['images', { tools: [{ type: 'image_generation' }], max_tool_calls: 1 }, { image: 1 }],
    [
      'each of several',
      {
        tools: [
          { type: 'file_search' },
          { type: 'code_interpreter', container: { type: 'auto' } },
          { type: 'web_search_20250305', max_uses: 9 },
          { type: 'function', name: 'web_search' },
        ],
        max_tool_calls: 4,
      },
      { tool_call: 8, web_search: 9 },
    ],
  ])('are bounded by %s', (_, request, units) => {
    expect(unitsIn({ model: 'm', ...request })).toEqual(units);
  });

  test('have as many units for each choice', () => {
    expect(unitsIn({ web_search_options: {} }, 'm', 3)).toEqual({ web_search: 3 * TOOL_CALLS_TYPICAL });
  });

  test.each([
    { tools: [{ type: 'function', function: { name: 'web_search' } }] },
    { messages: [{ role: 'user', content: 'Use "web_search" and code_interpreter.' }] },
    { tools: null, web_search_options: null, plugins: null },
    { tools: 'web_search' },
    { tools: [null, 5, { type: 5 }, 'web_search'] },
  ])('are not seen in %j', (request) => {
    expect(unitsIn({ model: 'm', ...request })).toEqual({});
  });
});

test('a model that searches by itself is taken to search', () => {
  expect(unitsIn({ model: 'perplexity/sonar' }, 'perplexity/sonar')).toEqual({
    web_search: TOOL_CALLS_TYPICAL,
  });
});

test('a recording, video or file is an hour at most, and an image has no length', () => {
  const mediaMs = (part: object): number => {
    const request = { messages: [{ role: 'user', content: [part, { type: 'text', text: 'Hi' }] }] };
    const bytes = JSON.stringify(request).length;
    const { media_hour = 0 } = unitsIn(request, 'm', 1, ['media_hour']) as { media_hour?: number };
    return media_hour === 0 ? 0 : media_hour - bytes;
  };
  expect(mediaMs({ type: 'input_audio', input_audio: { data: 'UklGRg==' } })).toBe(MEDIA_MS_MAX);
  expect(mediaMs({ type: 'video_url', video_url: { url: 'https://example.com/v.mp4' } })).toBe(MEDIA_MS_MAX);
  expect(mediaMs({ type: 'file', file: { file_id: 'f' } })).toBe(MEDIA_MS_MAX);
  expect(mediaMs({ type: 'image_url', image_url: { url: 'https://example.com/i.png' } })).toBe(0);
});

test('only units with a price are counted, and a prompt has at most as many characters as bytes', () => {
  const request = { tools: [{ type: 'web_search' }], input: 'Grüße' };
  expect(unitsIn(request, 'm', 1, [])).toEqual({});
  expect(unitsIn(request, 'm', 1, ['characters'])).toEqual({
    characters: Buffer.byteLength(JSON.stringify(request)),
  });
  expect(Object.keys(unitsIn(request, 'm', 1, UNITS))).toEqual(
    expect.arrayContaining(['characters', 'web_search']),
  );
});
