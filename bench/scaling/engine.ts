/**
 * Discrete-event simulation in the style of SimPy: processes are generators that yield what they wait for.
 * Simulated time stops while they run and then jumps to the next event. All times are in milliseconds.
 */
import TinyQueue from 'tinyqueue';

/** An awaited event: calls `resume` when it happens, immediately or later. */
export type Wait = (resume: () => void) => void;

/** A sequence of events of one process. */
export type Process = Generator<Wait, void, void>;

interface Event {
  at: number;
  /** Events at the same time run in the order in which they were scheduled. */
  order: number;
  act: () => void;
}

export class Simulation {
  now = 0;
  #given = 0;
  readonly #events = new TinyQueue<Event>([], (a, b) => a.at - b.at || a.order - b.order);

  after(ms: number, act: () => void): void {
    this.#events.push({ at: this.now + ms, order: (this.#given += 1), act });
  }

  sleep(ms: number): Wait {
    return (resume) => this.after(ms, resume);
  }

  start(process: Process): void {
    const step = (): void => {
      const { done, value } = process.next();
      if (done !== true) value(step);
    };
    step();
  }

  /** Runs until no events remain or `isOver` returns true. */
  run(isOver: () => boolean = () => false): void {
    while (!isOver()) {
      const event = this.#events.pop();
      if (event === undefined) return;
      this.now = event.at;
      event.act();
    }
  }
}

/**
 * The processors of one machine. All running work shares them equally, with at most one processor each, like
 * an operating system's scheduler (processor sharing).
 */
export class Processors {
  /** Total busy time of all processors. */
  busyMs = 0;
  readonly #simulation: Simulation;
  readonly #cores: number;
  readonly #running = new Set<{ leftMs: number; resume: () => void }>();
  #since = 0;
  #plan = 0;

  constructor(simulation: Simulation, cores: number) {
    this.#simulation = simulation;
    this.#cores = cores;
  }

  /** Runs work of this duration. Takes longer when other work runs too. */
  work(ms: number): Wait {
    return (resume) => {
      this.#advance();
      this.#running.add({ leftMs: ms, resume });
      this.#expect();
    };
  }

  #share(): number {
    return Math.min(1, this.#cores / this.#running.size);
  }

  #advance(): void {
    const passed = this.#simulation.now - this.#since;
    this.#since = this.#simulation.now;
    if (this.#running.size === 0) return;
    const done = passed * this.#share();
    this.busyMs += done * this.#running.size;
    for (const each of this.#running) each.leftMs -= done;
  }

  /** Schedules the next completion and cancels the previous one. */
  #expect(): void {
    const plan = (this.#plan += 1);
    if (this.#running.size === 0) return;
    const least = Math.min(...[...this.#running].map(({ leftMs }) => leftMs));
    this.#simulation.after(Math.max(0, least) / this.#share(), () => {
      if (plan === this.#plan) this.#end();
    });
  }

  #end(): void {
    this.#advance();
    // Remainders below a thousandth of a microsecond are floating-point errors.
    const ended = [...this.#running].filter(({ leftMs }) => leftMs < 1e-6);
    for (const each of ended) this.#running.delete(each);
    this.#expect();
    for (const { resume } of ended) resume();
  }
}

/** A semaphore: this many holders at a time, first come, first served. */
export class Places {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  take(): Wait {
    return (resume) => {
      if (this.#free === 0) {
        this.#waiting.push(resume);
        return;
      }
      this.#free -= 1;
      resume();
    };
  }

  giveBack(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }
}

/** A thread of a machine: runs one task at a time. */
export class Thread {
  readonly #place = new Places(1);
  readonly #processors: Processors;

  constructor(processors: Processors) {
    this.#processors = processors;
  }

  *work(ms: number): Process {
    yield this.#place.take();
    yield this.#processors.work(ms);
    this.#place.giveBack();
  }
}
