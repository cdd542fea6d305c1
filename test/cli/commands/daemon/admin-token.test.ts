import t from 'tap';
import { waybill } from '../../process.ts';

const config = `server: { http: { listen: '127.0.0.1:0' }, admin_token_env: ADMIN, staging: { directory: staging } }
pipelines:
  - { id: maps, source: { backend: http_upload }, destinations: [{ id: web, backend: local, path: www }] }
`;

t.test('an admin token that could be guessed is refused, like an upload token', async (t) => {
  const cwd = t.testdir({ 'c.yml': config });
  for (const command of [['config', 'check'], ['serve']]) {
    const { status, stderr } = waybill([...command, '--config', 'c.yml'], { cwd, env: { ADMIN: 'admin' } });
    t.equal(status, 2, command.join(' '));
    t.match(stderr, 'the value of ADMIN (server.admin_token_env) has fewer than 24 characters');
    t.notMatch(stderr, /"admin"/);
  }
  const long = { ADMIN: 'a'.repeat(24) };
  t.equal(waybill(['config', 'check', '--config', 'c.yml'], { cwd, env: long }).status, 0);
});
