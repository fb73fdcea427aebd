import type { UpstreamTerms } from '#db/events/upstream-events.ts';

/** What OpenTelemetry's conventions for generative AI call providers and operations. Pure. */

/** The operation of a route; a route that the conventions have no word for is named by its last part. */
export function operationOf(route: string): string {
  switch (route) {
    case '/v1/chat/completions':
    case '/v1/responses':
    case '/v1/messages':
      return 'chat';
    case '/v1/completions':
      return 'text_completion';
    case '/v1/embeddings':
      return 'embeddings';
    default:
      return route.replace(/^\/v1\//, '').replaceAll('/', '_');
  }
}

/** The provider behind an upstream; one that the conventions have no word for is named by its dialect. */
export function providerOf({ provider, dialect, package: npm }: UpstreamTerms): string {
  switch (provider) {
    case 'anthropic':
      return 'anthropic';
    case 'gemini':
      return 'gcp.gemini';
    case 'bridge':
      return npm ?? 'bridge';
    case 'openai':
      break;
  }
  switch (dialect) {
    case 'openai':
    case undefined:
    case 'other':
      return 'openai';
    case 'azure':
      return 'azure.ai.openai';
    case 'gemini':
      return 'gcp.gemini';
    case 'mistral':
      return 'mistral_ai';
    default:
      return dialect;
  }
}
