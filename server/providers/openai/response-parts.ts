import type { UsageDetails } from '#db/events/usage-details.ts';
import type { Usage } from '#db/money.ts';
import { asRecord } from '#server/wire/counts.ts';
import { providerText } from '#server/wire/reply-facts.ts';

/** Parts of a response object that its usage leaves out. Pure. */

/** The reason why a response ended: that of its incompleteness, else its status. */
export function finishReasonOf(status: unknown, incomplete: unknown): string | null {
  return providerText(asRecord(incomplete)?.['reason']) ?? providerText(status);
}

/**
 * Adds the tools of the provider's own that the output shows, each as OpenAI charges for it: searches of the
 * web and not the opening of their results, searches of files, containers and not the code that ran in them,
 * and images. Providers that count them in the usage are believed.
 */
export function addToolUnits(usage: Usage, output: unknown): void {
  if (!Array.isArray(output)) return;
  let searches = 0;
  let files = 0;
  let images = 0;
  const containers = new Set<unknown>();
  for (const item of output.map(asRecord)) {
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
  const tools = files + containers.size;
  if (searches + tools + images === 0) return;
  const details: UsageDetails = { ...usage.details };
  if (searches > 0) details.web_searches ??= searches;
  if (tools > 0) details.tool_calls ??= tools;
  if (images > 0) details.images ??= images;
  usage.details = details;
}
