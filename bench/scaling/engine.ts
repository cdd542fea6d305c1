/**
 * Discrete events, as SimPy has them: processes are generators that yield what they wait for, time stands
 * still while they decide, and jumps to the next event. Milliseconds all through.
 */
import TinyQueue from 'tinyqueue';

/** Something to wait for: `resume` is called when it has happened, at once or later. */
export type Wait = (resume: () => void) => void;

/** What happens one after another to one thing. */
export type Process = Generator<Wait, void, void>;

interface Event {
  at: number;
  /** Of two at one time the earlier given is first. */
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

  /** Until nothing happens any more, or `isOver`. */
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
 * The processors of one machine. All that run on it share them alike, each on one at most, as the scheduler
 * of an operating system has it: processor sharing.
 */
export class Processors {
  /** Time that all of them together were at work. */
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

  /** Runs for so long, longer where others do, too. */
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

  /** The next end, as far as is known now; what was expected before no longer counts. */
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
    // Thousandths of a microsecond are what floating point leaves of nothing.
    const ended = [...this.#running].filter(({ leftMs }) => leftMs < 1e-6);
    for (const each of ended) this.#running.delete(each);
    this.#expect();
    for (const { resume } of ended) resume();
  }
}

/** So many may be taken at once; who comes first is first. */
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

/** A thread of a machine: one thing after another. */
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
