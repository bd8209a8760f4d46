"""The cases that need ROS: the path through the middleware. These modules may import rclpy freely."""
