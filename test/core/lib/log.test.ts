import t from 'tap';
import { logControl, type LogLevel, logLevels } from '../../../src/core/lib/log.ts';

t.test('the log prints the level that was set last, and higher levels', async (t) => {
  const levels: LogLevel[] = [];
  const control = logControl({ onLevel: (level) => levels.push(level) });
  const shown = (): LogLevel[] => logLevels.filter((level) => control.shows(level));
  t.same(shown(), ['info', 'warn', 'error', 'fatal', 'silent']);
  t.equal(control.requests, 'all');
  control.set({ level: 'error', requests: 'none' });
  t.same(shown(), ['error', 'fatal', 'silent']);
  t.equal(control.requests, 'none');
  control.set({ level: 'trace', requests: 'errors' });
  t.same(shown(), [...logLevels]);
  t.equal(control.requests, 'errors');
  t.same(levels, ['info', 'error', 'trace']);
});

t.test('--verbose means at least debug, whatever the configuration sets', async (t) => {
  const levels: LogLevel[] = [];
  const control = logControl({ verbose: true, onLevel: (level) => levels.push(level) });
  for (const level of ['silent', 'info', 'debug', 'trace'] as const) control.set({ level, requests: 'all' });
  t.same(levels, ['debug', 'debug', 'debug', 'debug', 'trace']);
  t.ok(control.shows('trace'));
});
