import t from 'tap';
import { sharedRights } from '../../../../src/api/console/views/account-view.ts';

const pipeline = (granted: string[], role: string | null = null) => ({
  role,
  rights: ['See', 'Publish'].map((label) => ({ label, isGranted: granted.includes(label) })),
});

t.test('rights are listed once if they are the same in all pipelines', (t) => {
  const all = pipeline(['See', 'Publish']);
  t.same(sharedRights([all, pipeline(['See', 'Publish'])]), all.rights);
  t.equal(sharedRights([all, pipeline(['See'])]), null);
  t.equal(sharedRights([pipeline(['See'], 'viewer'), pipeline(['See'], 'operator')]), null);
  t.equal(sharedRights([]), null);
  t.end();
});
