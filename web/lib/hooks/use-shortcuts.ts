import { useEffect, useEffectEvent } from 'react';
import { useSingleKeys } from './preferences.ts';

/** The first key of two-key shortcuts. */
const FIRST_OF_PAIR = 'g';
const PAIR_WITHIN_MS = 1_000;

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
/** Space and Enter activate the focused element. */
const isPressing = ({ key, target }: KeyboardEvent): boolean =>
  (key === ' ' || key === 'Enter') &&
  target instanceof HTMLElement &&
  target.closest('a, button, summary, [role="tab"]') !== null;

/**
 * Registers single-key and two-key shortcuts such as `g k`. Inactive in text fields, while a dialog is open,
 * and if turned off.
 * @param actions by `KeyboardEvent.key`, or two of them separated by a space.
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
