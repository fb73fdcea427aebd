import { useEffect, useEffectEvent } from 'react';
import { useSingleKeys } from './preferences.ts';

/** Begins every pair: whatever comes after it is no single key. */
const FIRST_OF_PAIR = 'g';
const PAIR_WITHIN_MS = 1_000;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
/** Space and Enter press what has the focus. */
const isPressing = ({ key, target }: KeyboardEvent): boolean =>
  (key === ' ' || key === 'Enter') &&
  target instanceof HTMLElement &&
  target.closest('a, button, summary, [role="tab"]') !== null;

/**
 * Single keys, and two in a row such as `g k`, while nobody types, no dialog is open, and they are not
 * turned off.
 * @param actions by key as `KeyboardEvent.key` names it, or two of them with a blank between.
 */
export function useShortcuts(actions: Readonly<Record<string, () => void>>): void {
  const run = useEffectEvent((keys: string): boolean => {
    const action = actions[keys];
    action?.();
    return action !== undefined;
  });
  const isOn = useSingleKeys();
  useEffect(() => {
    if (!isOn) return undefined;
    let first = '';
    let firstAtMs = 0;
    const listener = (event: KeyboardEvent): void => {
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        isTyping(event.target) ||
        isPressing(event) ||
        document.querySelector('dialog[open]')
      )
        return;
      const isSecond = first === FIRST_OF_PAIR && event.timeStamp - firstAtMs < PAIR_WITHIN_MS;
      const done = run(isSecond ? `${first} ${event.key}` : event.key);
      first = event.key;
      firstAtMs = event.timeStamp;
      if (done) {
        first = '';
        event.preventDefault();
      }
    };
    document.addEventListener('keydown', listener);
    return () => document.removeEventListener('keydown', listener);
  }, [isOn]);
}
