import path from 'node:path';
import t from 'tap';
import { installCommand } from '../../../src/core/config/required-packages.ts';

t.test('names the command that installs a package where waybill finds it', (t) => {
  const place = t.testdir({ project: { 'package.json': '{}', node_modules: { waybill: {} } } });
  const project = path.join(place, 'project');
  const home = path.join(project, 'node_modules/waybill');
  t.equal(installCommand('lmdb@1.2.3', home, project), 'npm install --ignore-scripts lmdb@1.2.3');
  t.equal(
    installCommand('lmdb@1.2.3', home, place),
    `npm install --ignore-scripts --prefix ${project} lmdb@1.2.3`,
  );
  t.equal(
    installCommand('lmdb@1.2.3', path.join(place, 'lib/node_modules/waybill'), place),
    'npm install --ignore-scripts --global lmdb@1.2.3',
  );
  t.equal(
    installCommand('lmdb@1.2.3', path.join(place, '_npx/0a1b/node_modules/waybill'), place),
    'npx --package waybill --package lmdb@1.2.3 waybill …',
  );
  t.equal(
    installCommand('lmdb@1.2.3', path.join(place, 'clone'), place),
    `npm install --ignore-scripts --no-save --prefix ${path.join(place, 'clone')} lmdb@1.2.3`,
  );
  t.end();
});
