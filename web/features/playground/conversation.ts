import { useEffect, useRef, useState } from 'react';
import { sendRequest, type Message, type Question } from './send-request.ts';

/** One message of the conversation. */
export type ChatMessage = {
  id: number;
  role: 'user' | 'assistant';
  text: string;
  state: 'running' | 'done' | 'stopped' | 'failed';
  /** The replying model. */
  model?: string;
  request?: string | null;
  /** The model's finish reason, or null. */
  finish?: string | null;
  error?: unknown;
};

export type Asking = Omit<Question, 'messages'> & { system: string };

type Conversation = {
  turns: readonly ChatMessage[];
  isRunning: boolean;
  say: (text: string, asking: Asking) => void;
  /** Sends the last message again. */
  retry: (asking: Asking) => void;
  stop: () => void;
  clear: () => void;
};

/** A conversation in this page's memory only. */
export function useConversation(): Conversation {
  const [turns, setTurns] = useState<readonly ChatMessage[]>([]);
  const running = useRef<AbortController>(null);
  const lastId = useRef(0);
  useEffect(() => () => running.current?.abort(), []);

  const answer = (before: readonly ChatMessage[], { system, ...asking }: Asking): void => {
    const stopping = new AbortController();
    running.current = stopping;
    const id = ++lastId.current;
    setTurns([...before, { id, role: 'assistant', text: '', state: 'running', model: asking.model }]);
    const change = (part: (turn: ChatMessage) => Partial<ChatMessage>): void =>
      setTurns((all) => all.map((turn) => (turn.id === id ? { ...turn, ...part(turn) } : turn)));
    const messages: Message[] = [
      ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system }]),
      // A reply that failed before its first word is not part of the history.
      ...before.filter(({ text }) => text !== '').map(({ role, text }) => ({ role, content: text })),
    ];
    const listener = {
      onRequest: (request: string | null) => change(() => ({ request })),
      onText: paced((text) => change((turn) => ({ text: turn.text + text }))),
    };
    sendRequest({ ...asking, messages }, listener, stopping.signal).then(
      (finish) => change(() => ({ state: 'done', finish })),
      (error: unknown) =>
        change(() => (stopping.signal.aborted ? { state: 'stopped' } : { state: 'failed', error })),
    );
  };
  const isRunning = turns.at(-1)?.state === 'running';
  return {
    turns,
    isRunning,
    say: (text, asking) =>
      answer([...turns, { id: ++lastId.current, role: 'user', text, state: 'done' }], asking),
    retry: (asking) => answer(turns.slice(0, -1), asking),
    stop: () => running.current?.abort(),
    clear: () => {
      running.current?.abort();
      setTurns([]);
    },
  };
}

const PAINT_EVERY_MS = 50;

/** Batches words into one update per interval. */
function paced(emit: (text: string) => void): (text: string) => void {
  let waiting = '';
  return (text) => {
    if (waiting === '') {
      setTimeout(() => {
        emit(waiting);
        waiting = '';
      }, PAINT_EVERY_MS);
    }
    waiting += text;
  };
}
