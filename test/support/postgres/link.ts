import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

/** A TCP address before a server that can be pointed at another one, or cut, like a virtual address. */
export type Link = AsyncDisposable & {
  readonly port: number;
  /** Ends the open connections at once; new ones go to this port. */
  pointAt(port: number): void;
  /** Ends the open connections at once and refuses new ones. */
  cut(): void;
};

export async function openLink(target: number | null): Promise<Link> {
  let current = target;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    near.on('error', () => undefined);
    if (current === null) return void near.destroy();
    const far = connect({ port: current, host: '127.0.0.1', noDelay: true });
    far.on('error', () => undefined);
    near.setNoDelay(true);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    current = null;
    for (const socket of open) socket.destroy();
  };
  return {
    port,
    cut,
    pointAt(next) {
      cut();
      current = next;
    },
    async [Symbol.asyncDispose]() {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
