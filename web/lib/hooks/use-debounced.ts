import { useEffect, useEffectEvent, useState } from 'react';

/** The debounce interval. */
const TYPING_MS = 250;

/**
 * The debounced text of a filter field: the field updates immediately, the URL after a pause.
 * @param value the URL's value; the field follows when it changes otherwise.
 */
export function useDebounced(
  value: string,
  onSettle: (text: string) => void,
): [text: string, type: (text: string) => void] {
  const [text, setText] = useState(value);
  const [known, setKnown] = useState({ value, sent: value });
  if (value !== known.value) {
    setKnown({ value, sent: value });
    if (value !== known.sent) setText(value);
  }
  const settle = useEffectEvent(onSettle);
  const { sent } = known;
  useEffect(() => {
    if (text === sent) return undefined;
    const timer = setTimeout(() => {
      setKnown((before) => ({ ...before, sent: text }));
      settle(text);
    }, TYPING_MS);
    return () => clearTimeout(timer);
  }, [text, sent]);
  return [text, setText];
}
