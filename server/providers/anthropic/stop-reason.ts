/**
 * Finish reasons of a chat completion. A paused turn counts as finished.
 */
const FINISHES: Record<string, string> = {
  '"end_turn"': '"stop"',
  '"stop_sequence"': '"stop"',
  '"pause_turn"': '"stop"',
  '"max_tokens"': '"length"',
  '"model_context_window_exceeded"': '"length"',
  '"tool_use"': '"tool_calls"',
  '"refusal"': '"content_filter"',
};

/**
 * @param stopReason as JSON; null, absent or unknown where the provider gave no reason. @returns a finish
 * reason, as JSON.
 */
export function finishReason(stopReason: string | undefined, hasToolCalls: boolean): string {
  return FINISHES[stopReason ?? ''] ?? (hasToolCalls ? '"tool_calls"' : '"stop"');
}
