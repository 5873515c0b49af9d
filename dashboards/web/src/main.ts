import 'uplot/dist/uPlot.min.css';
import './style.css';

import { mount } from 'svelte';

import App from './App.svelte';

const target = document.getElementById('page');
if (target === null) throw new Error('index.html has no element "page"');
mount(App, { target });
