def draw_trajectories(o,p): pass
def draw_optimizer(o,p): pass
