import { Copyable } from './copy.tsx';

/** A shell command with a copy button. */
export function CommandLine({ command }: { command: string }) {
  return (
    <span className="block max-w-full rounded-md bg-sunken px-2 py-1">
      <Copyable text={command} what="command" hasWords />
    </span>
  );
}
