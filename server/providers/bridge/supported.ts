import type {
  FilePart,
  LanguageModel,
  Message,
  SupportedUrls,
} from '#server/providers/bridge/language-model.ts';
import { UnsupportedField } from '#server/providers/bridge/fields.ts';

/**
 * Sees to it that the provider fetches what the prompt names by address. The relay never does: that
 * would let any holder of a key make it request whatever it can reach.
 * @throws {UnsupportedField}
 */
export async function checkAddresses(prompt: readonly Message[], model: LanguageModel): Promise<void> {
  const files = prompt.flatMap((message) =>
    message.role === 'user' ? message.content.filter((part) => part.type === 'file') : [],
  );
  const addressed = files.filter((file) => addressOf(file) !== null);
  if (addressed.length === 0) return;
  const supported = (await model.supportedUrls) ?? {};
  if (addressed.every((file) => isSupported(file, supported))) return;
  throw new UnsupportedField(
    'messages',
    'The provider of this model does not fetch files from such an address. Send them as data: URLs.',
  );
}

function addressOf({ data }: FilePart): string | null {
  if (data instanceof URL) return data.href;
  return typeof data === 'object' && data.type === 'url' ? data.url.href : null;
}

/** As the AI SDK reads these patterns: a key is a media type, or `image/*`, or `*`. */
function isSupported(file: FilePart, supported: SupportedUrls): boolean {
  const address = addressOf(file) ?? '';
  return Object.entries(supported).some(([key, patterns]) => {
    const prefix = key === '*' || key === '*/*' ? '' : key.toLowerCase().replace('*', '');
    const fits =
      prefix === '' || prefix.endsWith('/') ? file.mediaType.startsWith(prefix) : file.mediaType === prefix;
    return fits && patterns.some((pattern) => address.search(pattern) === 0 || pattern.test(address));
  });
}
