import type { RelayedRoute } from '#db/limits/limits.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { generatesImages } from '#server/limits/image-models.ts';
import { GEMINI_LISTS, REQUEST_LISTS } from '#server/limits/request-lists.ts';
import { isPreset, searchesByItself } from '#server/limits/searching-models.ts';
import { findUnlisted, type Unlisted } from '#server/limits/json-shape.ts';

/** Members, and types of items, by which a request takes content that is not in it. */
const REFERENCES: ReadonlySet<string> = new Set([
  'previous_response_id',
  'conversation',
  'prompt',
  'thread',
  'item_reference',
  'container',
  'container_upload',
  'cached_content',
  'cachedContent',
  'audio',
  'preset',
]);
/** What to send instead, where it is not simply the whole conversation. */
const INSTEAD: Readonly<Record<string, string>> = {
  thread: 'Send the whole conversation without "thread"; Anthropic\'s tool runner does with "thread: false".',
  prompt: 'Send the text of the prompt as "input" and "instructions" instead.',
  audio: 'Send the transcript as "content" instead.',
  reasoning: 'Send the item with its "encrypted_content", or without its "id".',
};
/** A recording may have any length, whatever its bytes; no limit bounds the tokens of speech and images. */
const NEVER_BOUNDED: ReadonlySet<RelayedRoute> = new Set<RelayedRoute>([
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
  '/v1/audio/speech',
]);
const HARD = 'and this account has a hard quota, under which usage must be bounded before a request is sent.';

/**
 * The error of a request whose usage its bytes and its limit on the reply do not bound; null: they do. It
 * names the first field that is not on the list of its route.
 * @param body a valid JSON object, or a form.
 * @param model in the client's words; the upstreams' names for it are in `targets`.
 * @param protocol of the client, where it isn't that of the route.
 */
export function rejectUnbounded(
  route: RelayedRoute,
  body: Buffer,
  model: string,
  targets: readonly { readonly model: string | null }[] = [],
  protocol?: 'gemini',
): ApiError | null {
  const names = [model, ...targets.map((target) => target.model ?? model)];
  if (names.some((name) => searchesByItself(name) || isPreset(name))) {
    const what = names.some(isPreset) ? 'refers to a stored preset' : 'searches the web by itself';
    const remedy = 'Use another model, without ":online" and "@preset/".';
    const message = `The model "${model}" ${what}, ${HARD} ${remedy}`;
    return new ApiError('invalid_value', { message, param: 'model' });
  }
  if (names.some(generatesImages)) {
    const message =
      `The model "${model}" generates images, whose tokens a limit on the reply need not count, ${HARD} ` +
      'Use another model, or ask the operator for a soft quota.';
    return new ApiError('invalid_value', { message, param: 'model' });
  }
  if (NEVER_BOUNDED.has(route))
    return new ApiError('invalid_value', {
      message: `Nothing bounds the usage of ${route}, ${HARD} Ask the operator for a soft quota.`,
    });
  const list = (protocol && GEMINI_LISTS.get(route)) ?? REQUEST_LISTS[route];
  const unlisted = findUnlisted(body, list);
  return unlisted && new ApiError('invalid_value', { message: messageOf(unlisted), param: unlisted.path });
}

function messageOf({ path, kind, name }: Unlisted): string {
  if (kind === 'duplicate')
    return `The field "${path}" occurs twice, so its value is not certain, ${HARD} Send it once.`;
  if (kind === 'type' && path.endsWith('.type') && path.includes('tools['))
    return (
      `Tools of type "${name}" are run or defined by the provider, ${HARD} ` +
      'Remove the tool, or define it as a function that the client runs.'
    );
  const isReference = kind === 'incomplete' || REFERENCES.has(name);
  const what =
    kind === 'type' && !isReference
      ? `The type "${name}" of "${path}"`
      : `The field "${path}"${kind === 'value' ? ` with the value "${name}"` : ''}`;
  if (isReference) {
    const instead = INSTEAD[path.startsWith('input[') && path.endsWith('.id') ? 'reasoning' : name];
    const remedy = instead ?? 'Send the whole conversation instead.';
    return `${what} refers to content outside the request, ${HARD} ${remedy}`;
  }
  return (
    `${what} is not known to leave the usage of a request bounded, ${HARD} ` +
    'Remove it, or ask the operator for a soft quota.'
  );
}
