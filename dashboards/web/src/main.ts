import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/frame.css';
import './style/parts.css';
import './style/forms.css';
import './style/map.css';
import './style/incident.css';
import './style/settings.css';
import './style/narrow.css';

import { mount } from 'svelte';

import App from './App.svelte';

const target = document.getElementById('page');
if (target === null) throw new Error('index.html has no element "page"');
mount(App, { target });
