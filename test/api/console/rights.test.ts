import t from 'tap';
import { sharedRights } from '../../../src/api/console/rights.ts';

const pipeline = (granted: string[], role: string | null = null) => ({
  role,
  rights: ['View', 'Publish'].map((label) => ({ label, about: '', isGranted: granted.includes(label) })),
});

t.test('rights are listed once if they are the same in all pipelines', (t) => {
  const all = pipeline(['View', 'Publish']);
  t.same(sharedRights([all, pipeline(['View', 'Publish'])]), all.rights);
  t.equal(sharedRights([all, pipeline(['View'])]), null);
  t.equal(sharedRights([pipeline(['View'], 'viewer'), pipeline(['View'], 'operator')]), null);
  t.equal(sharedRights([]), null);
  t.end();
});
