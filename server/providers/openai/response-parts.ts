import type { UsageDetails } from '#db/events/usage-details.ts';
import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX, UNITS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { asRecord, detail } from '#server/wire/counts.ts';
import { providerText } from '#server/wire/reply-facts.ts';

/** Parts of a response object that its usage leaves out. Pure. */

/** The reason why a response ended: that of its incompleteness, else its status. */
export function finishReasonOf(status: unknown, incomplete: unknown): string | null {
  return providerText(asRecord(incomplete)?.['reason']) ?? providerText(status);
}

/**
 * Adds what the provider's own tools used, as OpenAI charges for it. `tool_usage` counts searches of the web
 * and the tokens of images. Without it the output shows searches, not the opening of their results, and
 * images. Searches of files, and containers, not the code that ran in them, are in the output alone.
 * Providers that count units in the usage are believed.
 * @returns false: the tools can't have used as much.
 */
export function addToolUsage(usage: Usage, output: unknown, toolUsage: unknown): boolean {
  const { web_search: search, image_gen: image } = asRecord(toolUsage) ?? {};
  const shown = shownTools(output);
  const searches = asRecord(search) ? detail(search, 'num_requests') : shown.searches;
  const tokens = { input: detail(image, 'input_tokens'), output: detail(image, 'output_tokens') };
  if (Math.max(tokens.input, tokens.output) > TOKENS_BELIEVED_MAX || searches > UNITS_BELIEVED_MAX)
    return false;
  const hasTokens = tokens.input + tokens.output > 0;
  if (searches + shown.tools + shown.images === 0 && !hasTokens) return true;
  const details: UsageDetails = { ...usage.details };
  if (searches > 0) details.web_searches ??= searches;
  if (shown.tools > 0) details.tool_calls ??= shown.tools;
  if (hasTokens) addImageTokens(usage, details, tokens);
  // Otherwise they are charged by their tokens.
  else if (shown.images > 0) details.images ??= shown.images;
  usage.details = details;
  return true;
}

/** The image model's tokens are of classes of their own, those of its texts too: its prices are others. */
function addImageTokens(
  usage: Usage,
  details: UsageDetails,
  { input, output }: { input: number; output: number },
): void {
  usage.input += input;
  usage.output += output;
  details.image_input_tokens = (details.image_input_tokens ?? 0) + input;
  details.image_output_tokens = (details.image_output_tokens ?? 0) + output;
}

function shownTools(output: unknown): { searches: number; tools: number; images: number } {
  let searches = 0;
  let files = 0;
  let images = 0;
  const containers = new Set<unknown>();
  for (const item of Array.isArray(output) ? output.map(asRecord) : []) {
    switch (item?.['type']) {
      case 'web_search_call':
        if ((asRecord(item['action'])?.['type'] ?? 'search') === 'search') searches++;
        break;
      case 'file_search_call':
        files++;
        break;
      case 'code_interpreter_call':
        containers.add(item['container_id']);
        break;
      case 'image_generation_call':
        images++;
        break;
      default:
    }
  }
  return { searches, tools: files + containers.size, images };
}
