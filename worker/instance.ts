import { hostname } from 'node:os';
import type { Client } from 'pg';
import { outsideSessionLine } from '#db/instances/outside-sessions.ts';
import { InstanceSession } from '#db/instances/instance-session.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/**
 * The instance that a worker appends as. It has no requests, but the events that it writes for dead instances
 * need one that is alive; and it watches its peers, so that the last server's death is noticed with only a
 * worker left. That is a timer of this process and no job: a heartbeat's age says something only to a process
 * that has watched it before.
 */
export class WorkerInstance {
  readonly #log: Logger;
  readonly session: InstanceSession;
  #knownDead = new Set<number>();
  /** Called when so many open requests of a dead instance were recorded as abandoned. */
  onRecovered: (abandoned: number) => void = () => undefined;
  /** Called when another instance is found to be dead. */
  onPeerDeath: () => void = () => undefined;

  constructor(connect: (timeoutMs?: number) => Promise<Client>, log: Logger) {
    this.#log = log;
    this.session = new InstanceSession({
      name: `worker ${hostname()} ${process.pid}`,
      connection: connect,
      onFenced: (instance) => log.warn({ instance }, 'instance fenced; registering a new one'),
      onDeadPeers: (peers) => {
        const isNews = peers.some((peer) => !this.#knownDead.has(peer));
        this.#knownDead = new Set(peers);
        if (isNews) this.onPeerDeath();
      },
      onRecovered: (peer, abandoned) => this.noteRecovered(peer, abandoned),
      onOutsideSession: (session) => log.warn(...outsideSessionLine(session)),
      onError: (line, error) => log.warn(errorFields(error), line),
    });
  }

  noteRecovered(peer: number, abandoned: number): void {
    this.onRecovered(abandoned);
    this.#log.warn(
      { instance: peer, abandoned },
      'dead instance recovered; its open requests were abandoned',
    );
  }
}
