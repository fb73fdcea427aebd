/**
 * Why a reply has ended, in the convention's words. A turn that is paused has said what it had to say so far.
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
 * @param stopReason as JSON; null, absent or unknown where nothing is known of it. @returns a finish reason,
 * as JSON.
 */
export function finishReason(stopReason: string | undefined, hasToolCalls: boolean): string {
  return FINISHES[stopReason ?? ''] ?? (hasToolCalls ? '"tool_calls"' : '"stop"');
}
