import type { ServerResponse } from 'node:http';
import { Registry } from '#db/registry.ts';

/** The requests whose reply has not ended, from their headers on, so that a stop can wait for them. */
export class OpenReplies {
  readonly #calls = new Registry<ServerResponse>();
  readonly #others = new Registry<ServerResponse>();
  #isClosing = false;

  /** Requests of relayed routes. */
  get calls(): number {
    return this.#calls.size;
  }

  /** All others. */
  get others(): number {
    return this.#others.size;
  }

  add(response: ServerResponse, isCall: boolean): void {
    const replies = isCall ? this.#calls : this.#others;
    const membership = replies.add(response);
    response.on('close', () => replies.delete(membership));
    if (this.#isClosing) response.shouldKeepAlive = false;
  }

  /** From here on each reply whose head has not been sent carries `Connection: close`. */
  closeConnections(): void {
    this.#isClosing = true;
    for (const response of [...this.#calls.members(), ...this.#others.members()])
      if (!response.headersSent) response.shouldKeepAlive = false;
  }
}
