import { useEffect, useEffectEvent } from 'react';

const isTyping = (target: EventTarget | null): boolean => target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
/** Space and Enter press what has the focus. */
const isPressing = ({ key, target }: KeyboardEvent): boolean => (key === ' ' || key === 'Enter') && target instanceof HTMLElement && target.closest('a, button, summary, [role="tab"]') !== null;

/**
 * Single keys, and two in a row such as `g k`, while nobody types and no dialog is open.
 * @param actions by key as `KeyboardEvent.key` names it, or two of them with a blank between.
 */
export function useShortcuts(actions: Readonly<Record<string, () => void>>): void {
  const run = useEffectEvent((keys: string): boolean => {
    const action = actions[keys];
    action?.();
    return action !== undefined;
  });
  useEffect(() => {
    let first = '';
    let firstAtMs = 0;
    const listener = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || isPressing(event) || document.querySelector('dialog[open]')) return;
      const pair = event.timeStamp - firstAtMs < 1_000 ? `${first} ${event.key}` : '';
      const done = (pair !== '' && run(pair)) || run(event.key);
      first = event.key;
      firstAtMs = event.timeStamp;
      if (done) {
        first = '';
        event.preventDefault();
      }
    };
    document.addEventListener('keydown', listener);
    return () => document.removeEventListener('keydown', listener);
  }, []);
}
