import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export interface Definer {
  counter: (name: string, help: string, labelNames: string[]) => Counter;
  histogram: (name: string, help: string, labelNames: string[], buckets: number[]) => Histogram;
  gauge: (name: string, help: string, labelNames: string[]) => Gauge;
}

export function definer(registry: Registry): Definer {
  const registers = [registry];
  return {
    counter: (name, help, labelNames) => new Counter({ name, help, labelNames, registers }),
    histogram: (name, help, labelNames, buckets) =>
      new Histogram({ name, help, labelNames, buckets, registers }),
    gauge: (name, help, labelNames) => new Gauge({ name, help, labelNames, registers }),
  };
}
