import { EventEmitter } from 'node:events';
import net from 'node:net';

type Emit = (this: net.Socket, event: string | symbol, ...values: unknown[]) => boolean;

/**
 * Calls `work` when a connection to this port of the server has ended and its socket is not closed yet. In
 * between, a client still considers it open.
 */
export function atConnectionEnd(port: number, work: () => Promise<unknown>): Promise<unknown> {
  const { prototype } = net.Socket;
  const emit = Reflect.get(EventEmitter.prototype, 'emit') as Emit;
  return new Promise((resolve, reject) => {
    const watching: Emit = function (event, ...values) {
      if (event === 'end' && this.remotePort === port) {
        Reflect.deleteProperty(prototype, 'emit');
        setImmediate(() => void work().then(resolve, reject));
      }
      return Reflect.apply(emit, this, [event, ...values]);
    };
    Reflect.set(prototype, 'emit', watching);
  });
}
