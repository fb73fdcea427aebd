import { Copyable } from './copy.tsx';

/** A command to be pasted where this program is installed. */
export function CommandLine({ command }: { command: string }) {
  return (
    <span className="block max-w-full rounded-md bg-sunken px-2 py-1">
      <Copyable text={command} what="the command" hasWords />
    </span>
  );
}
