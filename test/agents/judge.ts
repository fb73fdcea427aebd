import type { EventOf, Placed } from '#db/events/events.ts';
import { ANSWER, type AgentModel } from '../support/providers/agent-model.ts';
import type { Agent } from './agents.ts';
import type { Ran } from './run.ts';

/**
 * What is wrong with a run of an agent over the relay, each in a few words; nothing where the whole turn went
 * through. Pure.
 */
export function faultsOf(
  agent: Agent,
  ran: Ran,
  asked: AgentModel['asked'],
  settled: readonly EventOf<'request.settled'>[],
): string[] {
  const faults: string[] = [];
  if (ran.exitCode !== 0)
    faults.push(`it ended with ${ran.exitCode ?? 'a signal'}: ${ran.errors.slice(-500)}`);
  if (!ran.output.includes(ANSWER)) faults.push(`it did not tell the answer, but: ${ran.output.slice(-500)}`);
  if (ran.written !== 'noon') faults.push('its tool was not carried out');
  const strange = asked.filter(({ path }) => path !== agent.route);
  if (strange.length > 0) faults.push(`it asked by ${strange.map(({ path }) => path).join(', ')}`);
  if (!asked.some(({ tool, result }) => tool !== null && result === null)) faults.push('it offered no tool');
  for (const result of ['written-by-the-tool', 'written-by-the-second-call'])
    if (!asked.some((each) => each.result?.includes(result)))
      faults.push(`it did not send the result of a call: ${result}`);
  if (settled.length !== asked.length)
    faults.push(`${asked.length} calls reached the upstream, and ${settled.length} were settled`);
  const sessions = [...new Set(settled.map(({ session }) => session ?? 'none'))];
  const isExpected = sessions.length === 1 && (sessions[0] === 'none') === (agent.isWithoutSession === true);
  if (!isExpected) faults.push(`its calls were attributed to the sessions ${sessions.join(', ')}`);
  for (const { end_reason: reason, usage_source: source } of settled)
    if (reason !== 'completed' || source !== 'provider')
      faults.push(`a call was settled as ${reason}, by ${source}`);
  return faults;
}

/** The settlements of one key's calls. */
export function settledBy(key: string, log: readonly Placed[]): EventOf<'request.settled'>[] {
  return log.flatMap(({ event }) => (event.type === 'request.settled' && event.key === key ? [event] : []));
}
